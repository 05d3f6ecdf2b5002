// Branches of an If that cannot be run with the lengths that the model has here, for instance because they are for
// another length of an input:
//
//   If(%c) { MatMul(x f32[1, 576], w f32[576, 4]) } else { MatMul(x f32[1, 576], v f32[288, 4]) }
//
// The else branch gives zeros, and the program refuses a request that takes it (relate_lengths.cpp).
#pragma once
#include "ir/module.h"

namespace weftc {

/// The first error of a wrong branch: "node 'rnn' (LSTM): operand 0 has 5 dimensions, expected 3".
std::string first_error(const Diags& found);

/// Puts zeros of the types that the other branch gives in place of branch `refused` of an If. The user is warned.
void refuse_branch(Module& module, Graph& graph, OpId id, size_t refused, const std::string& why, Diags& diags);

/// A branch that requests must not take.
struct RefusedBranch {
  bool is_then;
  std::string why;  // "the else branch of 'If_0' cannot be run: node 'rnn' (LSTM): operand 0 ..."
};
std::optional<RefusedBranch> refused_branch(const Op& op);

}  // namespace weftc

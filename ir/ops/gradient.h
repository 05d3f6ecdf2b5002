// Gradient rules, a field of the records of ops that can be differentiated (OpDef::gradient): from the derivative of a
// number by the result of an op to those by its operands, as ops.
//
//   y = Tanh(x)      g * (1 - y * y)       what a rule reads, operands or the result, is kept until it is read
//   y = Floor(x)     nothing               constant but for jumps: no_gradient
//
// Where a function has a kink, the rules are those of PyTorch 2.15.
#pragma once
#include "ir/ops/formula.h"

namespace weftc {

/// One op on the way back, and the derivative by its result.
struct BackwardStep {
  Builder& build;
  const Op& op;
  Term g;

  Term in(size_t i) const { return {build, op.inputs[i]}; }
  Term out() const { return {build, op.outputs[0]}; }
  double real(const char* attr) const { return real_of(op, attr); }
  Term zero() const { return g.scalar(0); }
};
/// The derivative by each operand, of the result's shape where operands are broadcast; nothing for those by which there
/// is none (integers, conditions). Empty: by none.
using Derivatives = std::vector<std::optional<Term>>;

/// A rule that is a list of formulas, in braces: of `x` and `x1`, the first and the second operand, of `y`, the result,
/// and of `g`.
#define WEFT_GRADIENT(...)                                                                                    \
  [](const BackwardStep& s) -> Derivatives {                                                                  \
    [[maybe_unused]] const Term g = s.g, x = s.in(0), x1 = s.in(s.op.inputs.size() > 1 ? 1 : 0), y = s.out(); \
    return __VA_ARGS__;                                                                                       \
  }

/// Of what is constant but for jumps.
Derivatives no_gradient(const BackwardStep& s);

}  // namespace weftc

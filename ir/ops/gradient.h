// Gradient rules, a field of the records of ops that can be differentiated (OpDef::gradient): from the derivative of a
// number by the result of an op to those by its operands, as ops. An op without a rule that is made of parts is
// differentiated by them (passes/prepare/differentiate.cpp).
//
//   y = Tanh(x)      g * (1 - y * y)       what a rule reads, operands or the result, is kept until it is read
//   y = Floor(x)     nothing               constant but for jumps: no_gradient
//
// Where a function has a kink, the rules are those of PyTorch 2.15.
#pragma once
#include "ir/ops/formula.h"

namespace weftc {

/// One op on the way back, and the derivative by its first result.
struct BackwardStep {
  Builder& build;
  const OpView& view;
  Term g;
  const Op& op = view.op();

  Term in(size_t i) const { return {build, op.inputs[i]}; }
  bool has(size_t i) const { return view.has(static_cast<int>(i)); }
  /// A result; those up to `OpDef::kept_results` are there also where the model reads none of them.
  Term out(size_t i = 0) const { return {build, op.outputs[i]}; }
  double real(const char* attr) const { return real_of(op, attr); }
  Term zero() const { return g.scalar(0); }
  /// Zeros of the shape of an operand.
  Term zeros_like(size_t i) const { return zero().expand(in(i).dims()); }
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
inline Derivatives no_gradient(const BackwardStep&) { return {}; }

}  // namespace weftc

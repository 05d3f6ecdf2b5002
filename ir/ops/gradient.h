// Gradient rules: a field of the records of differentiable ops (OpDef::gradient). Given the derivative of a number by
// an op's result, a rule builds the derivatives by its operands as ops. An op without a rule that has a decomposition
// is differentiated by its parts (passes/prepare/differentiate.cpp).
//
//   y = Tanh(x)      g * (1 - y * y)       what a rule reads, operands or the result, is kept until it is read
//   y = Floor(x)     nothing               constant but for jumps: no_gradient
//
// Where a function has a kink, the rules are those of PyTorch 2.15.
#pragma once
#include "ir/ops/formula.h"

namespace weftc {

/// One op of the backward pass, and the derivative by its first result.
struct BackwardStep {
  Builder& build;
  const OpView& view;
  Term g;
  const Op& op = view.op();

  Term in(size_t i) const { return {build, op.inputs[i]}; }
  bool has(size_t i) const { return view.has(static_cast<int>(i)); }
  /// A result. Results up to `OpDef::kept_results` exist even if the model does not read them.
  Term out(size_t i = 0) const { return {build, op.outputs[i]}; }
  double real(const char* attr) const { return real_of(op, attr); }
  Term zero() const { return g.scalar(0); }
  /// Zeros of the shape of an operand.
  Term zeros_like(size_t i) const { return zero().expand(in(i).dims()); }
};
/// The derivative by each operand, in the result's shape if operands are broadcast. It is nothing for operands without
/// a derivative (integers, conditions). An empty list: no operand has one.
using Derivatives = std::vector<std::optional<Term>>;

/// A rule that is a list of formulas, in braces. They use `x` and `x1` (the first and second operand), `y` (the result)
/// and `g`.
#define WEFT_GRADIENT(...)                                                                                    \
  [](const BackwardStep& s) -> Derivatives {                                                                  \
    [[maybe_unused]] const Term g = s.g, x = s.in(0), x1 = s.in(s.op.inputs.size() > 1 ? 1 : 0), y = s.out(); \
    return __VA_ARGS__;                                                                                       \
  }

/// The rule of functions that are constant except for jumps.
inline Derivatives no_gradient(const BackwardStep&) { return {}; }

}  // namespace weftc

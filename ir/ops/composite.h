// Expressions that several decompositions build: they add ops with inferred types to the graph and return the
// results.
#pragma once
#include "ir/ops/record.h"

namespace weftc {

/// The mean of x over `axes`: a sum times a constant 1/count, or a sum divided by the product of run-time lengths.
/// Integers are divided.
ValueId mean(Builder& build, ValueId x, const std::vector<int64_t>& axes, bool keepdims);
/// log(sum(exp(x))) over `axes`, which keep extent 1. The maximum is subtracted first, so that no exponential
/// overflows; if it is infinite, it is the result.
ValueId log_sum_exp(Builder& build, ValueId x, const std::vector<int64_t>& axes);

/// op(x, y) with y as a constant scalar of x's dtype.
inline ValueId with_scalar(Builder& build, OpKind kind, ValueId x, double y) {
  return build.op(kind, {x, build.scalar(x, y)});
}
inline ValueId add(Builder& build, ValueId a, ValueId b) { return build.op(OpKind::Add, {a, b}); }
inline ValueId subtract(Builder& build, ValueId a, ValueId b) { return build.op(OpKind::Sub, {a, b}); }
inline ValueId multiply(Builder& build, ValueId a, ValueId b) { return build.op(OpKind::Mul, {a, b}); }
inline ValueId divide(Builder& build, ValueId a, ValueId b) { return build.op(OpKind::Div, {a, b}); }

}  // namespace weftc

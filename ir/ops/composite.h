// Expressions that several decompositions build.
#pragma once
#include "ir/ops/record.h"

namespace weftc {

/// Sum times 1/count; a run-time length divides.
ValueId mean(Builder& build, ValueId x, const std::vector<int64_t>& axes, bool keepdims);
/// log(sum(exp(x))) over `axes`, kept, without overflow.
ValueId log_sum_exp(Builder& build, ValueId x, const std::vector<int64_t>& axes);

/// op(x, y) with one operand a scalar of the other's dtype.
inline ValueId with_scalar(Builder& build, OpKind kind, ValueId x, double y) {
  return build.op(kind, {x, build.scalar(x, y)});
}
inline ValueId add(Builder& build, ValueId a, ValueId b) { return build.op(OpKind::Add, {a, b}); }
inline ValueId subtract(Builder& build, ValueId a, ValueId b) { return build.op(OpKind::Sub, {a, b}); }
inline ValueId multiply(Builder& build, ValueId a, ValueId b) { return build.op(OpKind::Mul, {a, b}); }
inline ValueId divide(Builder& build, ValueId a, ValueId b) { return build.op(OpKind::Div, {a, b}); }

}  // namespace weftc

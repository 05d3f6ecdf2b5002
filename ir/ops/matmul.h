// The shape of matrix products, for all ops that are products.
#pragma once
#include "ir/ops/record.h"

namespace weftc {

/// The shape of MatMul of operands `left` and `right`, of any element types; nothing after reporting.
std::optional<Shape> product_shape(const OpView& op, int left, int right);
/// MatMul's factors: batch dims, m, n and k, of operands 0 and 1, which are matrices.
FactorRule factors_matmul(const OpView& op);
/// The result of an op that multiplies these tensors like MatMul.
void multiply_matrices(EvalContext& context, const Tensor& left, const Tensor& right);

}  // namespace weftc

// The shape of matrix products, for every op that is one.
#pragma once
#include "ir/ops/record.h"

namespace weftc {

/// The shape of MatMul of operands `left` and `right`, of any element types; nothing after reporting.
std::optional<Shape> product_shape(const OpView& op, int left, int right);

}  // namespace weftc

// Index maps between a rank's slice, the part that a whole axis holds, and global positions: they insert and remove
// digits.
#pragma once
#include <functional>

#include "ir/kernel/index_expr.h"
#include "ir/layout.h"

namespace weftc {

/// The coordinate on a mesh axis as an expression: a run-time argument of the kernel.
using CoordinateFn = std::function<IndexExpr(int axis)>;

/// The position of local element `index` of a dimension that `digits` slice (coarse to fine), in a memory where the
/// axes that `whole` accepts are not sliced: their digits are inserted. If it accepts all axes, that is the global
/// index.
///
///   8 elements, S(0, 2) on tp of size 2:  rank 1 holds 2 3 6 7;  local 2  ->  2 / 2 * 4 + 1 * 2 + 2 % 2 = 6
IndexExpr with_digits(const IndexExpr& index, const std::vector<Digit>& digits,
                      const std::function<bool(int axis)>& whole, const CoordinateFn& coordinate);

/// The local index of global element `index`: every digit is removed.
IndexExpr without_digits(const IndexExpr& index, const std::vector<Digit>& digits);
/// The digits themselves: the coordinates that hold the element.
std::vector<IndexExpr> digits_at(const IndexExpr& index, const std::vector<Digit>& digits);

/// The product of the sizes of the axes that slice the dimension: by this factor it is shorter on a rank.
int64_t parts_of(const TensorType& type, int dim, const Mesh& mesh);

}  // namespace weftc

// Checks of the indices that a kernel looks up. They are the first statements of its body:
//
//   weft::IndexRange ids_range;
//   for (int64_t i = 0; i < 6; ++i) {
//     ids_range.add(ids[i]);
//   }
//   look_indices.demand(ids_range, 7);
//
// Checks have loops of their own, for any strategy. The loops that look up are unchanged and clamp each index, so that
// they never read outside a tensor.
#pragma once
#include "backend/kernel_context.h"

namespace weftc {

/// Number of elements of a dimension on all ranks together: its length in this request, or its extent.
Expr whole_extent(KernelContext& context, const TensorType& type, int dim);

/// Whether the indices of an op are constants that the compiler made, each a position in its dimension.
bool are_positions(const KernelContext& context, const Op& op);

/// Empty if no index can be outside.
Statements index_checks(KernelContext& context);

}  // namespace weftc

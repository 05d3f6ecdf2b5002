// Checks of the indices that a kernel looks up, as the first statements of its body:
//
//   weft::IndexRange ids_range;
//   for (int64_t i = 0; i < 6; ++i) {
//     ids_range.add(ids[i]);
//   }
//   look_indices.demand(ids_range, 7);
//
// They go through the indices in loops of their own, whatever computes them: the loops that look up stay as they are,
// and clamp an index where they read by it, so that they never read outside of a tensor.
#pragma once
#include "backend/kernel_context.h"

namespace weftc {

/// How many elements a dimension has on all ranks together: its length in this request, or its extent.
Expr whole_extent(KernelContext& context, const TensorType& type, int dim);

/// Whether the indices of an op are constants that the compiler has made, each a position in its dimension.
bool are_positions(const KernelContext& context, const Op& op);

/// Empty where no index can lie outside.
Statements index_checks(KernelContext& context);

}  // namespace weftc

// Kernels of the host that sum down the columns of a matrix: neighbours in memory belong to different results.
#pragma once
#include "ir/kernel/kernel_body.h"

namespace weftc {

/// True for a kernel that reduces once and returns results of that reduction only. Neighbours in memory of the reduced
/// operand must belong to at least 8 different results. The kernel computes several results at once, each in an order
/// that depends on its number of elements; any other sum is computed in the order of vectors.
bool sums_down_columns(const KernelBody& body);

}  // namespace weftc

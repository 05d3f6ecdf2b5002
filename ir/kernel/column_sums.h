// Kernels of the host that sum down the columns of a matrix: neighbours in memory belong to different results.
#pragma once
#include "ir/kernel/kernel_body.h"

namespace weftc {

/// True for a kernel that reduces once, gives nothing but results of that, and reads what it reduces such that
/// neighbours in memory belong to at least 8 different results. It takes several results at once, each in an order that
/// follows from the number of its elements; any other sum is taken in the order of vectors.
bool sums_down_columns(const KernelBody& body);

}  // namespace weftc

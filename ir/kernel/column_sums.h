// Kernels of the host whose reductions run over dimensions behind which neighbouring elements in memory are of another
// one: sums down the columns of a matrix.
#pragma once
#include "ir/kernel/kernel_body.h"

namespace weftc {

/// True if neighbours in memory of all that is reduced belong to at least 8 different results. Such sums are taken
/// several at a time, each in the order of its elements; any other sum in that of vectors.
bool sums_down_columns(const KernelBody& body);

}  // namespace weftc

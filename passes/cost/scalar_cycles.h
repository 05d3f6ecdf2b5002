// Clock cycles of elements that a core computes one by one: divisions of integers, library functions, draws, sorting,
// sums down columns. Their time does not follow from the width of vectors.
#pragma once
#include "ir/op_def.h"
#include "ir/plan.h"

namespace weftc {

/// Cycles of one rank's part of an op; 0 for ops whose elements are computed as vectors.
double scalar_cycles(const OpView& op, const Mesh& mesh);
/// Cycles that a kernel of the host takes because of its strategy, beyond those of its ops.
double strategy_cycles(const Plan& plan, const Kernel& kernel, const Strategy& strategy);

}  // namespace weftc

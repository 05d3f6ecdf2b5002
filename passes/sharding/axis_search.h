// Layouts over a mesh of several axes, one axis after another: while an axis is free the others stay as they are, which
// is a problem as narrow as that of one axis. What it ends at is no worse on any axis alone; proofs are left to a
// search of all axes at once, whose tables are too wide for most trainings.
#pragma once
#include "passes/sharding/sharding_problem.h"

namespace weftc {

/// The best choices found, by node: from ranks that all do the same, from either axis on, and from axes that slice
/// alike. Empty where there were none that keep the limit of memory. `effort`: of each of its searches.
std::vector<int> search_by_axes(const ShardingProblem& problem, const PartitionEffort& effort);

}  // namespace weftc

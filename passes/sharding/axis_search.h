// Searches layouts over a mesh of several axes, one axis after another. While one axis is free the others stay as they
// are, so each problem is as narrow as that of one axis. The result cannot be improved by changing one axis alone.
// Proofs are left to a search of all axes at once, whose tables are too wide for most trainings.
#pragma once
#include "passes/sharding/sharding_problem.h"

namespace weftc {

/// The best choices found, by node: starting from replicated layouts, from either axis on, and from axes that slice
/// alike. Empty where no choices keep the limit of memory. `effort` applies to each of its searches.
std::vector<int> search_by_axes(const ShardingProblem& problem, const PartitionEffort& effort);

}  // namespace weftc

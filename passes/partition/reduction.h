// The same problem without choices that some other choice of the node is never worse than, whatever the neighbours
// choose (Goldstein's criterion for dead ends, Biophysical Journal 66, 1994).
#pragma once
#include "passes/partition/problem.h"

namespace weftc {

struct ReducedProblem {
  PartitionProblem problem;
  std::vector<std::vector<int>> kept;  // by node: its choices in the original
};

/// Some best solution of the original is one of the reduced problem.
ReducedProblem reduce(const PartitionProblem& problem);
/// The choices in the original.
std::vector<int> expand(const ReducedProblem& reduced, const std::vector<int>& choices);
/// By node: the edges that have it.
std::vector<std::vector<int>> edges_by_node(const PartitionProblem& problem);

}  // namespace weftc

// Solves "choose one strategy for each node": exactly where elimination can, else by elimination of one region after
// the other. Memory has a price, which is raised until the limit holds (Lagrange).
#pragma once
#include "passes/partition/problem.h"

namespace weftc {

struct PartitionSolution {
  std::vector<int> choices;  // by node; empty where none was found that keeps the limit
  int64_t cost = 0;
  int64_t lower_bound = 0;  // no choices that keep the limit cost less
  bool is_proved() const { return !choices.empty() && cost <= lower_bound; }
};

/// `seconds`: about so long at most. The same problem has the same solution unless the time ends it.
PartitionSolution solve_partition(const PartitionProblem& problem, double seconds);

}  // namespace weftc

// Solves "choose one strategy for each node": the problem is reduced, then searched region after region, each by
// elimination of its nodes with prices of memory. A small problem is solved as one region, which can prove the optimum.
#pragma once
#include <limits>

#include "passes/partition/problem.h"
#include "passes/partition/search_team.h"

namespace weftc {

struct PartitionSolution {
  std::vector<int> choices;  // by node; empty if no choices were found that keep the limit
  int64_t cost = 0;
  int64_t lower_bound = 0;     // no choices that keep the limit cost less
  std::vector<int> left;       // by node: the choices that reduction leaves; 1 of one that another node decides
  bool is_impossible = false;  // proved: no choices keep the limit and have no forbidden cost
  bool is_proved() const { return !choices.empty() && cost <= lower_bound; }
};

struct PartitionEffort {
  double seconds = std::numeric_limits<double>::infinity();  // at most about this long
  SearchEffort search;
};

/// With one thread the same problem has the same solution unless seconds end the search.
PartitionSolution solve_partition(const PartitionProblem& problem, const PartitionEffort& effort);

}  // namespace weftc

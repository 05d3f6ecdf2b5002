// Reduction, search, and the way back.
#include "passes/partition/solve.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "passes/partition/reduction.h"

namespace weftc {

PartitionSolution solve_partition(const PartitionProblem& problem, const PartitionEffort& effort) {
  const auto begin = std::chrono::steady_clock::now();
  const auto is_late = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > effort.seconds;
  };
  PartitionSolution solution;
  ReducedProblem reduced(problem);
  reduce(reduced);
  solution.is_impossible = reduced.is_infeasible;
  if (reduced.is_infeasible) return solution;
  for (size_t n = 0; n < reduced.nodes.size(); ++n)
    solution.left.push_back(reduced.nodes[n].is_alive ? reduced.choice_count(static_cast<int>(n)) : 1);
  const SearchGraph graph(reduced);
  SearchResult result;
  if (graph.size() == 0)
    result = {{}, graph.base_cost, graph.base_cost, true};
  else
    result = search_graph(graph, effort.search, is_late);
  solution.is_impossible = result.is_complete && std::isinf(result.cost);
  if (std::isinf(result.cost)) return solution;
  solution.choices = reduced.expand(graph.in_reduced_problem(result.choices));
  solution.cost = cost_of(problem, solution.choices);
  solution.lower_bound = solution.cost;
  // Costs are whole numbers. The rounding error is less than the amount subtracted, so the bound stays valid.
  const double bound = std::ceil(result.lower_bound - 1e-6 - 1e-11 * std::abs(result.cost));
  if (!result.is_complete) solution.lower_bound = static_cast<int64_t>(std::clamp(bound, 0.0, result.cost));
  return solution;
}

}  // namespace weftc

// "Choose one strategy for each node": costs of nodes and of pairs of nodes, and memory over time. The form of the
// contest IOPDDL at ASPLOS 2025 (Moffitt and Fegade), which is that of Alpa's intra-operator problem (OSDI 2022).
#pragma once
#include <cstdint>
#include <vector>

namespace weftc {

/// A choice, a pair of choices or a sum of costs from here on is forbidden.
inline constexpr int64_t kForbiddenCost = 1'000'000'000'000'000;

/// Costs are whole numbers, of any unit, from 0 on.
struct PartitionProblem {
  struct Node {
    int64_t first = 0, last = 0;  // it takes memory at the times first, ..., last - 1
    std::vector<int64_t> costs;   // by choice, at least one
    std::vector<int64_t> usage;   // by choice, from 0 on; empty: no memory
  };
  struct Edge {
    int a = 0, b = 0;            // two nodes
    std::vector<int64_t> costs;  // by choice of a, then of b
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  int64_t limit = INT64_MAX;  // of the usage at each time
};

/// A sum of costs; one of its parts is forbidden, or the sum is: kForbiddenCost.
inline int64_t add_costs(int64_t a, int64_t b) {
  if (a >= kForbiddenCost || b >= kForbiddenCost || a + b >= kForbiddenCost) return kForbiddenCost;
  return a + b;
}

/// The sum that is minimised.
int64_t cost_of(const PartitionProblem& problem, const std::vector<int>& choices);
/// The most that is used at any time.
int64_t peak_usage(const PartitionProblem& problem, const std::vector<int>& choices);

/// The problem with the choices `left` of each node, at least one, in their order.
PartitionProblem with_choices(const PartitionProblem& problem, const std::vector<std::vector<int>>& left);

}  // namespace weftc

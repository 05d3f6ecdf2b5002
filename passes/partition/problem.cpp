// The cost and the memory use of given choices.
#include "passes/partition/problem.h"

#include <algorithm>
#include <map>

namespace weftc {

int64_t cost_of(const PartitionProblem& problem, const std::vector<int>& choices) {
  int64_t cost = 0;
  for (size_t i = 0; i < problem.nodes.size(); ++i) cost = add_costs(cost, problem.nodes[i].costs[choices[i]]);
  for (const PartitionProblem::Edge& edge : problem.edges) {
    const size_t columns = problem.nodes[edge.b].costs.size();
    cost = add_costs(cost, edge.costs[choices[edge.a] * columns + choices[edge.b]]);
  }
  return cost;
}

int64_t peak_usage(const PartitionProblem& problem, const std::vector<int>& choices) {
  std::map<int64_t, int64_t> changes;  // of the usage, by time
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const PartitionProblem::Node& node = problem.nodes[i];
    if (node.first >= node.last || node.usage.empty()) continue;
    changes[node.first] += node.usage[choices[i]];
    changes[node.last] -= node.usage[choices[i]];
  }
  int64_t usage = 0, peak = 0;
  for (const auto& [time, change] : changes) peak = std::max(peak, usage += change);
  return peak;
}

PartitionProblem with_choices(const PartitionProblem& problem, const std::vector<std::vector<int>>& left) {
  PartitionProblem made;
  made.limit = problem.limit;
  for (size_t n = 0; n < problem.nodes.size(); ++n) {
    const PartitionProblem::Node& node = problem.nodes[n];
    PartitionProblem::Node& kept = made.nodes.emplace_back();
    kept.first = node.first, kept.last = node.last;
    for (const int choice : left[n]) {
      kept.costs.push_back(node.costs[static_cast<size_t>(choice)]);
      if (!node.usage.empty()) kept.usage.push_back(node.usage[static_cast<size_t>(choice)]);
    }
  }
  for (const PartitionProblem::Edge& edge : problem.edges) {
    PartitionProblem::Edge& kept = made.edges.emplace_back(PartitionProblem::Edge{edge.a, edge.b, {}});
    const size_t columns = problem.nodes[static_cast<size_t>(edge.b)].costs.size();
    for (const int a : left[static_cast<size_t>(edge.a)])
      for (const int b : left[static_cast<size_t>(edge.b)])
        kept.costs.push_back(edge.costs[static_cast<size_t>(a) * columns + static_cast<size_t>(b)]);
  }
  return made;
}

}  // namespace weftc

#include "passes/partition/problem.h"

#include <algorithm>
#include <map>

namespace weftc {

int64_t cost_of(const PartitionProblem& problem, const std::vector<int>& choices) {
  int64_t cost = 0;
  for (size_t n = 0; n < problem.nodes.size(); ++n) cost += problem.nodes[n].costs[static_cast<size_t>(choices[n])];
  for (const PartitionProblem::Edge& edge : problem.edges) {
    const size_t width = problem.nodes[static_cast<size_t>(edge.b)].costs.size();
    const auto row = static_cast<size_t>(choices[static_cast<size_t>(edge.a)]);
    cost += edge.costs[row * width + static_cast<size_t>(choices[static_cast<size_t>(edge.b)])];
  }
  return cost;
}

int64_t peak_usage(const PartitionProblem& problem, const std::vector<int>& choices) {
  std::map<int64_t, int64_t> change;
  for (size_t n = 0; n < problem.nodes.size(); ++n) {
    const PartitionProblem::Node& node = problem.nodes[n];
    if (node.usage.empty() || node.first >= node.last) continue;
    change[node.first] += node.usage[static_cast<size_t>(choices[n])];
    change[node.last] -= node.usage[static_cast<size_t>(choices[n])];
  }
  int64_t now = 0, peak = 0;
  for (const auto& [time, more] : change) peak = std::max(peak, now += more);
  return peak;
}

}  // namespace weftc

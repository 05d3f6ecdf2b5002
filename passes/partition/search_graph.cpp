// A reduced problem without its gaps.
#include "passes/partition/search_graph.h"

namespace weftc {

SearchGraph::SearchGraph(const ReducedProblem& problem)
    : room(problem.room), base_cost(static_cast<double>(problem.base_cost)), reduced_nodes_(problem.nodes.size()) {
  std::vector<int> number(problem.nodes.size(), -1);
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const ReducedProblem::Node& node = problem.nodes[i];
    if (!node.is_alive) continue;
    number[i] = size();
    reduced_node_.push_back(static_cast<int>(i));
    costs.emplace_back(node.costs.begin(), node.costs.end());
    leases.push_back(node.leases);
  }
  neighbours.resize(costs.size());
  for (const ReducedProblem::Edge& edge : problem.edges) {
    if (!edge.is_alive) continue;
    const int a = number[edge.a], b = number[edge.b], id = static_cast<int>(edges.size());
    edges.push_back({a, b, {edge.costs.begin(), edge.costs.end()}});
    neighbours[a].push_back({b, id, false});
    neighbours[b].push_back({a, id, true});
  }
}

double SearchGraph::cost_of(const std::vector<int>& choices) const {
  double cost = base_cost;
  for (int i = 0; i < size(); ++i) cost += costs[i][choices[i]];
  for (const Edge& edge : edges) cost += edge.costs[choices[edge.a] * costs[edge.b].size() + choices[edge.b]];
  return cost;
}

std::vector<int> SearchGraph::in_reduced_problem(const std::vector<int>& choices) const {
  std::vector<int> result(reduced_nodes_, 0);
  for (int i = 0; i < size(); ++i) result[reduced_node_[i]] = choices[i];
  return result;
}

}  // namespace weftc

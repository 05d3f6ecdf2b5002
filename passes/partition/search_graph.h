// The rest of a reduced problem, laid out for searching: numbers without gaps, and costs that are added fast.
#pragma once
#include <cstddef>

#include "passes/partition/reduced_problem.h"

namespace weftc {

/// Costs are whole numbers that a double holds exactly. A forbidden pair costs kForbidden, so that a search can count
/// how many there are.
struct SearchGraph {
  static constexpr double kForbidden = static_cast<double>(kForbiddenCost);

  struct Neighbour {
    int node, edge;
    bool is_first;  // of the edge, the neighbour
  };
  struct Edge {
    int a, b;
    std::vector<double> costs;
  };
  explicit SearchGraph(const ReducedProblem& problem);

  int size() const { return static_cast<int>(costs.size()); }
  int choice_count(int node) const { return static_cast<int>(costs[node].size()); }
  /// The cost of the edge to a neighbour.
  double edge_cost(const Neighbour& to, int choice, int other) const {
    const Edge& edge = edges[to.edge];
    return to.is_first ? edge.costs[other * costs[edge.b].size() + choice]
                       : edge.costs[choice * costs[edge.b].size() + other];
  }
  /// All costs of these choices.
  double cost_of(const std::vector<int>& choices) const;
  /// Choices by node of the reduced problem.
  std::vector<int> in_reduced_problem(const std::vector<int>& choices) const;

  std::vector<std::vector<double>> costs;  // by node and choice
  std::vector<std::vector<Neighbour>> neighbours;
  std::vector<std::vector<UsageLease>> leases;
  std::vector<Edge> edges;
  std::vector<int64_t> room;  // by time
  double base_cost = 0;

 private:
  std::vector<int> reduced_node_;
  size_t reduced_nodes_;
};

}  // namespace weftc

// The problem over some nodes of a graph while all others keep their choices.
//
//   a -- b -- c -- d, region {b, c}   ->   b -- c,  b with the costs of a's edge, c with those of d's
#pragma once
#include "passes/partition/search_graph.h"

namespace weftc {

/// A choice of each node, and the memory that they leave.
struct Assignment {
  Assignment(const SearchGraph& graph, std::vector<int> choices);
  /// Changes the choices of some nodes.
  void change(const SearchGraph& graph, const std::vector<int>& nodes, const std::vector<int>& to);
  int64_t excess() const;  // the sum over all times of the usage above the limit

  std::vector<int> choices;
  std::vector<int64_t> slack;  // by time; below 0 where the limit is exceeded
  double cost = 0;
};

/// Numbers nodes, choices and times from 0 on. Leaves out choices that a neighbour outside forbids. Times between which
/// no node of the region begins or ends are joined; the one with the least room counts.
class Region {
 public:
  struct Edge {
    int a, b;
    std::vector<double> costs;
  };
  struct Time {
    double room;                // for the nodes of the region
    int first, last, tightest;  // the times of the graph
  };
  /// `place` is -1 for each node of the graph, and stays so.
  Region(const SearchGraph& graph, const Assignment& assignment, std::vector<int> nodes, std::vector<int>& place);

  int size() const { return static_cast<int>(nodes.size()); }
  /// True if a node has no choice left, which never happens where the choices of `assignment` are compatible.
  bool is_impossible() const;
  /// The work of its construction, for a budget.
  double work() const;
  int choice_count(int node) const { return static_cast<int>(choices[node].size()); }
  double cost_of(const std::vector<int>& picks) const;
  /// By time.
  void usage_of(const std::vector<int>& picks, std::vector<double>& usage) const;
  /// The costs by node and choice when memory has a price by time.
  void add_prices(const std::vector<double>& prices, std::vector<std::vector<double>>& costs) const;
  /// The assignment's choices, as indices into `choices`.
  std::vector<int> present_picks(const Assignment& assignment) const;
  std::vector<int> choices_of(const std::vector<int>& picks) const;

  std::vector<int> nodes;                  // of the graph
  std::vector<std::vector<int>> choices;   // of the graph, by node
  std::vector<std::vector<double>> costs;  // with those of edges that leave the region
  std::vector<Edge> edges;
  std::vector<std::vector<int>> edges_of;  // by node
  std::vector<Time> times;

 private:
  void find_choices(const Assignment& assignment, const std::vector<int>& place);
  void make_consistent();
  void find_times(const Assignment& assignment);
  void drop_times_with_room();

  const SearchGraph& graph_;
  std::vector<std::vector<UsageLease>> leases_;  // in times and choices of the region
};

}  // namespace weftc

// A problem while it is reduced: nodes are removed, and the choices for them can be recovered.
//
//   a -- b -- c,  b decided by a   ->   a' -- c,  a' = a with the costs and the memory of b
#pragma once
#include <unordered_map>

#include "passes/partition/problem.h"
#include "passes/partition/times.h"

namespace weftc {

class ReducedProblem {
 public:
  struct Node {
    bool is_alive = true;
    std::vector<int64_t> costs;
    std::vector<UsageLease> leases;
    std::vector<int> edges;
    std::vector<int> choices;  // the number of each choice in the original
  };
  struct Edge {
    bool is_alive = true;
    int a, b;
    std::vector<int64_t> costs;
  };

  /// Times at which memory cannot be short are left out; the others are numbered from 0 on.
  explicit ReducedProblem(const PartitionProblem& problem);

  int choice_count(int node) const { return static_cast<int>(nodes[node].costs.size()); }
  int other_end(int edge, int node) const { return edges[edge].a == node ? edges[edge].b : edges[edge].a; }
  /// The cost of an edge by the choices of `node` and of its other end.
  int64_t edge_cost(int edge, int node, int choice, int other) const;

  /// Adds a table by choices of a, then of b; there is one edge at most between two nodes.
  void add_edge(int a, int b, std::vector<int64_t> costs);
  void drop_edge(int edge);
  /// Removes the other choices of a node. A problem without a choice has no solution.
  void keep_choices(int node, const std::vector<char>& kept);
  /// Removes a node of one choice.
  void fix(int node);
  /// Removes `gone`, whose choice is choice_of[choice of `into`]; `edge` connects them.
  void contract(int into, int gone, int edge, const std::vector<int>& choice_of);

  /// Subtracts the memory that all choices of a node take from the room; joins equal leases.
  void tidy_leases(int node);
  /// Leaves out times at which memory is not short whenever it is not at another time.
  void drop_times();

  /// Choices of the original from those of the nodes that are left; others are not read.
  std::vector<int> expand(const std::vector<int>& choices) const;

  std::vector<Node> nodes;
  std::vector<Edge> edges;
  int64_t base_cost = 0;         // of the nodes that are gone
  std::vector<int64_t> room;     // memory for the nodes that are left, by time
  bool is_infeasible = false;    // a node without a choice, or a time without room
  std::vector<char> is_changed;  // nodes that a rule has to look at again

 private:
  struct Removal {
    int node, into;              // into -1: it had one choice
    std::vector<int> choice_of;  // by original choice of `into`, or its one choice
  };
  void touch(int node);
  void add_costs_of_edge(Edge& edge, int a, const std::vector<int64_t>& costs) const;
  void apply_taken();

  std::vector<Removal> removals_;
  std::vector<int64_t> taken_;                 // changes of the room by time that are not applied yet
  std::unordered_map<uint64_t, int> edge_of_;  // by pair of nodes
};

}  // namespace weftc

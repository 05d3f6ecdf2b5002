// The least cost over the choices of some nodes by elimination of one after the other (Bertelè and Brioschi, Nonserial
// Dynamic Programming, 1972; bucket elimination, Dechter 1999): a node is replaced by a table of what it costs at best
// for each choice of its neighbours. Exact, and fast where the graph is nearly a tree, as those of networks are.
#pragma once
#include <optional>

#include "passes/partition/problem.h"

namespace weftc {

/// Costs of nodes, which may differ from the problem's: what memory costs, for example, is added.
using NodeCosts = std::vector<std::vector<int64_t>>;

class Elimination {
 public:
  /// Chooses for `nodes`, beside the choices that all others have. `most_entries`: of one table.
  Elimination(const PartitionProblem& problem, const std::vector<std::vector<int>>& edges_of,
              const std::vector<int>& nodes, int64_t most_entries);

  /// Nothing where a table would be larger.
  std::optional<int64_t> run(const NodeCosts& costs, std::vector<int>& choices);

 private:
  /// A function of the choices of some nodes.
  struct Table {
    std::vector<int> nodes;  // positions in nodes_; the last one varies fastest
    std::vector<int64_t> costs;
    bool is_used = false;
  };
  struct Eliminated {
    int node;
    std::vector<int> others;
    std::vector<int> best;  // by choices of the others
  };
  void make_tables(const NodeCosts& costs, const std::vector<int>& choices);
  int width(int node) const;
  int64_t entries(const std::vector<int>& nodes) const;
  std::vector<int> neighbours(int node) const;
  bool eliminate(int node);
  void add_table(Table table);

  const PartitionProblem& problem_;
  const std::vector<std::vector<int>>& edges_of_;
  const std::vector<int> nodes_;
  const int64_t most_entries_;
  std::vector<int> position_;  // by node of the problem; -1
  std::vector<Table> tables_;
  std::vector<std::vector<int>> tables_of_;  // by position
  std::vector<Eliminated> done_;
  int64_t sum_ = 0;
};

}  // namespace weftc

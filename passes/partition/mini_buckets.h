// A lower bound on the cost of a region by elimination of one node after another. A node is replaced by a table of its
// best cost for each choice of its neighbours, which is exact (Bertele and Brioschi, Nonserial Dynamic Programming,
// 1972). Where a table would be too large, the tables that hold the node are divided into groups, and each group
// chooses for itself: mini-bucket elimination (Dechter and Rish, JACM 50, 2003). Costs of the node's choices are moved
// between its groups so that their least costs agree (Ihler, Flerova, Dechter and Otten, UAI 2012).
#pragma once
#include "passes/partition/region.h"
#include "passes/partition/search_budget.h"

namespace weftc {

/// Which node is eliminated when.
struct EliminationOrder {
  std::vector<int> nodes;
  double largest = 1;  // entries of the largest table, if no table is divided
  double all = 0;      // entries that are looked at to make all tables
};

/// Always the node whose elimination makes the smallest table. Where that is much larger than `most_entries`, it will
/// be divided, and its neighbours do not become neighbours of each other.
EliminationOrder elimination_order(const Region& region, double most_entries);

class MiniBuckets {
 public:
  /// `most_entries`: of one table; a table whose neighbours alone have more is divided, to single edges at the least.
  MiniBuckets(const Region& region, double most_entries);
  MiniBuckets(const MiniBuckets&) = delete;
  MiniBuckets& operator=(const MiniBuckets&) = delete;

  /// No choices cost less. Costs by node and choice are the region's, or those with prices. Nothing of it holds when
  /// the budget ended it.
  double bound(const std::vector<std::vector<double>>& costs, SearchBudget& budget);
  /// For each decided bucket, the last one first: how the bound changes with each choice of its node, if the nodes of
  /// the later buckets have these picks. The sum over all buckets and the bound is the cost.
  void add_changes(int bucket, const std::vector<uint16_t>& picks, std::vector<double>& values) const;

  /// Does no other node depend on the bucket's, nor it on them?
  bool is_alone(int bucket) const {
    return buckets_[bucket].tables.size() == 1 && buckets_[bucket].groups[0].nodes.empty();
  }
  /// The choice of its node that costs least, where it is alone.
  uint16_t cheapest(int bucket) const;

  int size() const { return static_cast<int>(buckets_.size()); }
  int node_of(int bucket) const { return buckets_[bucket].node; }
  /// By node: the first bucket of another node whose tables depend on it; size() where no bucket's do.
  const std::vector<int>& first_use() const { return first_use_; }

 private:
  /// A function of the choices of some nodes, the one that is eliminated first varying slowest.
  struct Table {
    const double* costs;
    std::vector<int> nodes;
    std::vector<size_t> strides;
  };
  struct Term {
    const double* costs;
    size_t node_stride;
    std::vector<size_t> strides;  // by node of the message; 0 where the table does not depend on it
  };
  struct Group {
    std::vector<int> nodes, counts;  // of the message
    std::vector<Term> terms;
    std::vector<double> message, shift;  // shift: costs by choice of the node that come from other groups
  };
  struct Bucket {
    int node = 0;
    std::vector<Table> tables;
    std::vector<Group> groups;
  };

  Table table_of(const double* costs, std::vector<int> nodes) const;
  void make_groups(Bucket& bucket, double most_entries);
  void add_group(Bucket& bucket, const std::vector<int>& nodes, const std::vector<int>& tables);
  void shift_costs(Bucket& bucket);
  double work_of(const Bucket& bucket, const Group& group) const;
  /// Calls visit(choice, costs of it by choice of the last node of the message, place in the message).
  template <class Visit>
  void sweep(const Group& group, int choices, Visit visit);

  const Region& region_;
  std::vector<int> position_;
  std::vector<std::vector<double>> costs_;
  std::vector<std::vector<double>> transposed_;
  std::vector<Bucket> buckets_;
  std::vector<int> first_use_;
  std::vector<double> row_;
};

}  // namespace weftc

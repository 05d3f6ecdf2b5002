// The times that matter: the memory limit holds at all times if it holds at these.
#pragma once
#include "passes/partition/problem.h"

namespace weftc {

/// Memory that a node takes from time `first` to `last`, which is not included.
struct UsageLease {
  int first, last;
  std::vector<int64_t> usage;  // by choice
};

/// Does some choice of the node take memory?
bool takes_memory(const PartitionProblem::Node& node);

/// The times whose set of live nodes is contained in no other time's set. They are the maximal cliques of an interval
/// graph, each right before an end that follows a begin.
class TimePoints {
 public:
  explicit TimePoints(const PartitionProblem& problem);
  int count() const { return static_cast<int>(points_.size()); }
  /// How many points are before the time.
  int number(int64_t time) const;

 private:
  std::vector<int64_t> points_;
};

/// By time, whether it can bind. False where all choices leave room. Also false where the usage exceeds that of a
/// neighbouring kept time at most by as much as the room does. Leases are those of each node.
std::vector<char> times_that_bind(const std::vector<int64_t>& room,
                                  const std::vector<std::vector<UsageLease>*>& leases);

}  // namespace weftc

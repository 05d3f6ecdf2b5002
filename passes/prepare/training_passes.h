// The forward and the backward pass of a training step, and the ops of the forward pass that are recomputed because too
// little is kept for the backward pass.
#pragma once
#include <set>
#include <unordered_set>
#include <vector>

#include "ir/module.h"

namespace weftc {

/// Finds the ops that compute the loss, and those that compute or read its derivatives.
class TrainingPasses {
 public:
  /// The module must have a training.
  explicit TrainingPasses(const Module& module);

  bool is_forward(OpId id) const { return forward_[id.index]; }
  bool is_late(OpId id) const { return is_late_[id.index]; }
  /// All late ops, in the order of the graph.
  const std::vector<OpId>& late() const { return late_; }
  /// True for a result of the forward pass that is in memory only if it is kept. Inputs (also parameters) and constants
  /// are always in memory.
  bool is_made_forward(const Graph& graph, ValueId v) const;

 private:
  std::vector<bool> forward_, is_late_;  // by op
  std::vector<OpId> late_;
};

/// True for an input or a constant.
bool is_given(const Op& op);
/// True for a result that shows elements of one other value, which has to be in memory for it.
bool is_shown(const Graph& graph, ValueId v);

int64_t bytes_of(const Graph& graph, ValueId value);
int64_t bytes_of(const Graph& graph, const std::set<ValueId>& values);

/// The results of the forward pass that the backward pass reads: where it reads one through views, that one.
std::set<ValueId> values_across(const Graph& graph, const TrainingPasses& passes);

using KeptValues = std::unordered_set<ValueId>;
/// True for a value that the backward pass reads directly: it is kept, or not a result of the forward pass.
inline bool is_there(const Graph& graph, const TrainingPasses& passes, const KeptValues& kept, ValueId v) {
  return !passes.is_made_forward(graph, v) || kept.contains(v);
}

/// An op of the forward pass that is recomputed, and the first late op that needs it.
struct Again {
  OpId op, reader;
};
/// In the order in which they run; those of one reader are together.
std::vector<Again> computed_again(const Graph& graph, const TrainingPasses& passes, const KeptValues& kept);

}  // namespace weftc

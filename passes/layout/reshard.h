// Inserts the collectives that take a value from one layout to another (L7).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "ir/module.h"

namespace weftc {

/// One collective of a reshard: its kind, its axes (outer first), and the layout that it makes.
struct ReshardStep {
  OpKind kind;
  std::vector<int> axes;
  Layout layout;
};
/// The steps in the first order of axes whose every step is legal: slices first, gathers last. Where no order is legal,
/// one axis goes through R.
std::vector<ReshardStep> reshard_steps(const TensorType& from, const Layout& to, const Mesh& mesh);

/// The name of an op's node: the first origin's, else its own.
std::string node_name(const Module& module, const Op& op);

/// Gives each reshard the block of its operand. If its readers at the place are all of one other block, it gets that
/// block: a gather for the backward pass. An input or a constant has no block, so each block that reads its reshard
/// gets a copy of its own.
void give_reshards_blocks(Module& module);

/// Inserts reshards after their producers and shares them between readers of one value.
class Resharder {
 public:
  Resharder(Module& module, Graph& graph) : module_(module), graph_(graph) {}

  /// `value` in layout `to`; the value itself if it has that layout. A value that lies in memory from the beginning,
  /// such as a parameter, is resharded before its first reader. Late readers share a separate reshard of a value that
  /// is not late, before the first of them, so that the other one need not be kept for them.
  ValueId reshard(ValueId value, const Layout& to, OpId reader = {});

 private:
  std::optional<ValueId> gathered_view(ValueId value, const Layout& to, OpId reader);
  ValueId insert(ValueId value, const ReshardStep& step, OpId before, bool is_late);
  std::string name_of(ValueId value, const ReshardStep& step, bool is_late);

  Module& module_;
  Graph& graph_;
  std::map<std::tuple<ValueId, std::string, bool>, ValueId>
      made_;  // by value, layout and whether it is for late readers
  // Consecutive steps stay in that order after the producer.
  std::map<ValueId, OpId> last_after_;
};

}  // namespace weftc

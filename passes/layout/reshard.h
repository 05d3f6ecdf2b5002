// Inserts the collectives that take a value from one layout to another (L7).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "ir/module.h"

namespace weftc {

/// One collective on the way: what happens on which axes (outer first), and the layout behind it.
struct ReshardStep {
  OpKind kind;
  std::vector<int> axes;
  Layout layout;
};
/// The first order of axes whose every step is legal, slices first, gathers last; where none is, one axis goes through
/// R.
std::vector<ReshardStep> reshard_steps(const TensorType& from, const Layout& to, const Mesh& mesh);

/// The name of an op's node: the first origin's, else its own.
std::string node_name(const Module& module, const Op& op);

/// Gives each reshard the block of what it reads, or of its readers where these are of one other block at the place: a
/// gather for the backward pass. An input or a constant has no block: there each block that reads the reshard gets its
/// own copy.
void give_reshards_blocks(Module& module);

/// Makes reshards behind their producers and shares them between readers of one value.
class Resharder {
 public:
  Resharder(Module& module, Graph& graph) : module_(module), graph_(graph) {}

  /// `value` in layout `to`; the value itself if it has that layout. What lies in memory from the beginning, such as a
  /// parameter, is resharded in front of its first reader. Late readers share a reshard of their own of what is not
  /// late, in front of the first of them, so that the other one need not be kept for them.
  ValueId reshard(ValueId value, const Layout& to, OpId reader = {});

 private:
  std::optional<ValueId> gathered_view(ValueId value, const Layout& to, OpId reader);
  ValueId insert(ValueId value, const ReshardStep& step, OpId before, bool is_late);
  std::string name_of(ValueId value, const ReshardStep& step, bool is_late);

  Module& module_;
  Graph& graph_;
  std::map<std::tuple<ValueId, std::string, bool>, ValueId>
      made_;  // by value, layout and whether it is for late readers
  // Steps that follow one another stay in that order behind the producer.
  std::map<ValueId, OpId> last_behind_;
};

}  // namespace weftc

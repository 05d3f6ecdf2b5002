// Finds the run-time lengths that ops and shapes refer to by name, and the values that hold lengths decided by data:
//
//   %n = NameLength(%found) {name = "n"} : i64[]       %y = Gather(%x, %at) : f32[n<=64, 8]
//
// y depends on %n although it is not an operand. Lengths of inputs and states are known before anything runs: no value
// holds them.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "ir/graph.h"

namespace weftc {

/// Calls `f` with the text of each named length in the shape, as often as it occurs.
void for_each_name(const Shape& shape, const std::function<void(const std::string&)>& f);
/// The same for an op: its results, its regions, and the length whose number it is.
void for_each_name(const Graph& graph, const Op& op, const std::function<void(const std::string&)>& f);

/// The results of a graph's NameLength ops, by the names that they give.
class LengthHolders {
 public:
  explicit LengthHolders(const Graph& graph);
  /// Calls `f` with each value of the graph that holds a length of the shape.
  void for_each(const Shape& shape, const std::function<void(ValueId)>& f) const;
  /// The same for an op of the graph. A NameLength does not depend on itself.
  void for_each(const Op& op, const std::function<void(ValueId)>& f) const;
  bool holds_length(ValueId value) const;
  /// The value that holds this length; none if no op of the graph computes it.
  ValueId find(const std::string& name) const;

 private:
  const Graph& graph_;
  std::map<std::string, ValueId> holders_;
};

}  // namespace weftc

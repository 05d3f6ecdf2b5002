// Which run-time lengths ops and shapes speak of by name, and which values hold those that data decides:
//
//   %n = NameLength(%found) {name = "n"} : i64[]       %y = Gather(%x, %at) : f32[n<=64, 8]
//
// y depends on %n although it is no operand. The lengths of inputs and states are known before anything runs: nothing
// holds them.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "ir/graph.h"

namespace weftc {

/// Calls `f` with the text of each named length in the shape, as often as it occurs.
void for_each_name(const Shape& shape, const std::function<void(const std::string&)>& f);
/// The same of the op: its results, what is in its regions, and the length that it is the number of.
void for_each_name(const Graph& graph, const Op& op, const std::function<void(const std::string&)>& f);

/// The results of a graph's NameLength ops, by the names that they give.
class LengthHolders {
 public:
  explicit LengthHolders(const Graph& graph);
  /// Calls `f` with each value of the graph that holds a length of the shape.
  void for_each(const Shape& shape, const std::function<void(ValueId)>& f) const;
  /// The same of an op of the graph. A NameLength does not depend on itself.
  void for_each(const Op& op, const std::function<void(ValueId)>& f) const;
  bool holds_length(ValueId value) const;
  /// The value that holds this one; none where no op of the graph makes it.
  ValueId find(const std::string& name) const;

 private:
  const Graph& graph_;
  std::map<std::string, ValueId> holders_;
};

}  // namespace weftc

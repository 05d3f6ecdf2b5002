// Selectors of a schedule against a module: names with `{l}` variables and `*`, nodes, values, {uses: WEIGHT}
// (README.md, The schedule).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"

namespace weft {

/// Texts bound to the `{...}` variables of a step.
using Bindings = std::map<std::string, std::string>;
/// `text` with the bound variables replaced.
std::string substitute(const std::string& text, const Bindings& bindings);

/// What a name can mean in a module, built once.
class SelectableNames {
 public:
  SelectableNames(const Module& module, const Graph& graph);

  /// Ops meant by a name: an op's own name, or all ops of the node (or weight) of that name, in graph order.
  std::vector<OpId> ops(const std::string& name) const;
  /// The value meant by a name: a value's own name, else the results of the node of that name that others read.
  std::vector<ValueId> values(const std::string& name) const;
  /// Every name that can be selected, for "did you mean".
  const std::vector<std::string>& all() const { return all_; }

  /// The bindings for which every selector of a step matches some name, one for each distinct text of the variables, in
  /// natural order (l = 2 before l = 10). One empty binding if there are no variables.
  std::vector<Bindings> bindings(const std::vector<Selector>& selectors) const;
  /// Names that match a selector under bindings; `*` may match several.
  std::vector<std::string> matches(const Selector& selector, const Bindings& bindings) const;
  /// Ops of a selector under bindings: of all matching names, or all readers for {uses: WEIGHT}.
  std::vector<OpId> select_ops(const Selector& selector, const Bindings& bindings) const;
  std::vector<ValueId> select_values(const Selector& selector, const Bindings& bindings) const;
  /// Reports that a selector matched nothing, with what is near, and what became of a name that the import knew.
  void report_unmatched(const Selector& selector, Diags& diags) const;

 private:
  const Module& module_;
  const Graph& graph_;
  std::multimap<std::string, OpId> ops_;  // op names and node names
  std::map<std::string, ValueId> values_;
  std::vector<std::string> all_;
};

}  // namespace weft

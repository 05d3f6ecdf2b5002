// Selectors of a schedule against a module: names with `{l}` variables and `*`, nodes, values, {uses: WEIGHT},
// weight_of(NODE) (README.md, The schedule).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/name_pattern.h"
#include "ir/schedule.h"

namespace weftc {

/// Maps names to the ops and values of a module: built once, then kept up to date with `add_new_ops`.
class SelectableNames {
 public:
  SelectableNames(const Module& module, const Graph& graph, const Aliases& aliases = no_aliases());
  /// Takes in the names of ops added since. Removed ops need no call; an op that was taken in keeps its names.
  void add_new_ops();

  /// Ops meant by a name: an op's own name, or all ops of the node (or weight) of that name, in graph order.
  std::vector<OpId> ops(const std::string& name) const;
  /// The value meant by a name: a value's own name, else the results of the node of that name that others read.
  std::vector<ValueId> values(const std::string& name) const;
  /// The weights of the node of that name: operands of its products and convolutions that follow from constants alone,
  /// else the largest such operand. It is one value, unless the node reads several alike.
  std::vector<ValueId> weights(const std::string& name) const;
  /// True if a name can be selected.
  bool has(const std::string& name) const;
  /// Every name that can be selected, sorted.
  std::vector<std::string> all() const;

  /// The bindings for which every selector of a step matches some name, one for each distinct text of the variables, in
  /// natural order (l = 2 before l = 10). One empty binding if there are no variables.
  std::vector<Bindings> bindings(const std::vector<Selector>& selectors) const;
  /// Names that match a selector under bindings; `*` may match several.
  std::vector<std::string> matches(const Selector& selector, const Bindings& bindings) const;
  /// Ops of a selector under bindings: of all matching names, or all readers for {uses: WEIGHT}.
  std::vector<OpId> select_ops(const Selector& selector, const Bindings& bindings) const;
  std::vector<ValueId> select_values(const Selector& selector, const Bindings& bindings) const;
  /// Reports that a selector matched nothing, with similar names, and explains where a name of the import went.
  void report_unmatched(const Selector& selector, Diags& diags) const;

 private:
  using Bearers = std::map<std::string, std::vector<OpId>>;
  static const Aliases& no_aliases();
  void add_bearer(const std::string& name, OpId id);
  bool is_borne(const Bearers::value_type& entry) const;
  bool means(const std::string& name, OpId id) const;
  /// The op in whose regions a selector would match; invalid where none would.
  OpId find_holder(const Selector& selector) const;
  template <class Found>
  void for_each_match(const std::string& pattern, const Found& found) const;

  const Module& module_;
  const Graph& graph_;
  const Aliases& aliases_;
  std::map<std::string, std::vector<std::string>> aliases_of_;  // by the name that they stand for
  Bearers bearers_;   // ops by their own name, their nodes' and their values'; some may be gone from the graph
  size_t taken_ = 0;  // of the graph's op ids
};

/// The copy of the value that is recomputed for the backward pass; invalid where the value itself is kept.
ValueId find_again(const Module& module, const Graph& graph, ValueId value);

}  // namespace weftc

// Finds the ops that the names in the stages of a schedule mean.
#include <set>
#include <utility>

#include "ir/base/contains.h"
#include "passes/prepare/stages.h"
#include "passes/select.h"

namespace weftc {

namespace {

/// An input or an initialiser. A folded value is a constant too, but has nodes as origins.
bool is_value(const Op& op) { return (op.kind == OpKind::Input || op.kind == OpKind::Constant) && op.origins.empty(); }

/// The innermost module of a node, or the node's own name.
std::string module_of(const std::string& node, const Aliases& aliases) {
  std::string found = node;
  size_t longest = 0;
  for (const auto& [alias, names] : aliases)
    if (alias.size() > longest && contains(names, node)) found = alias, longest = alias.size();
  return found;
}

/// The nodes that read the results of an op, by their modules where the exporter names these.
template <class IsOfModel>
void add_readers(const Module& module, OpId id, const Aliases& aliases, const IsOfModel& is_of_model,
                 std::set<std::string>& readers) {
  constexpr size_t kShown = 6;
  for (const ValueId v : module.graph.op(id).outputs)
    for (const Use& use : module.graph.value(v).uses) {
      if (!use.op || readers.size() >= kShown) continue;
      for (const OriginId origin : module.graph.op(use.op).origins)
        if (is_of_model(module.origins[origin.index]))
          readers.insert("'" + printable(module_of(module.origins[origin.index].name, aliases)) + "'");
    }
}

}  // namespace

/// Resolves the selectors of one stage. A derivative follows its node, whatever a pattern meets.
void Stages::assign_listed(int number) {
  const SelectableNames names(module_, graph_, schedule_.aliases);
  for (const Selector& selector : schedule_.pipeline->stages[static_cast<size_t>(number)].nodes) {
    bool is_any = false, is_any_of_model = false, is_any_node = false;
    std::set<std::string> readers;
    const auto of_model = [&](const Origin& origin) { return is_of_model(origin); };
    for (const Bindings& bindings : names.bindings({selector}))
      for (const std::string& name : names.matches(selector, bindings))
        for (const OpId id : names.select_ops({selector.kind, name, selector.loc}, {})) {
          is_any = true;
          if (!is_listed_by(name, graph_.op(id))) continue;
          is_any_of_model = true;
          if (is_value(graph_.op(id)))
            add_readers(module_, id, schedule_.aliases, of_model, readers);
          else
            is_any_node = true;
          if (phase(id) != Phase::Forward) continue;
          const int before = std::exchange(stage(id), number);
          if (before >= 0 && before != number) contests_.push_back({id, before, selector.loc});
        }
    if (!is_any)
      names.report_unmatched(selector, diags_);
    else if (!is_any_of_model)
      diags_.error("stage-added", selector.loc,
                   "'{}' names no node of the model: what a training adds runs where its operands are, without being "
                   "listed",
                   printable(shown_selector(selector)));
    else if (!is_any_node)
      diags_.error("stage-values", selector.loc,
                   "'{}' names values and no node of the model, and stages are made of nodes{}",
                   printable(shown_selector(selector)),
                   readers.empty() ? "" : ": those that read them are " + join({readers.begin(), readers.end()}, ", "));
  }
}

/// True for a node of the model, false for those that a training adds: losses, derivatives, updates.
bool Stages::is_of_model(const Origin& origin) const {
  return origin.phase == Phase::Forward && !(module_.training && origin.loc.file == schedule_.file);
}

/// A node of the model may have been merged with ops that the training adds; names of these list nothing.
bool Stages::is_listed_by(const std::string& name, const Op& op) const {
  bool is_any_of_model = op.origins.empty(), is_added_name = false;
  for (const OriginId id : op.origins) {
    const Origin& origin = module_.origins[id.index];
    if (!is_of_model(origin)) {
      is_added_name = is_added_name || name == origin.name || name.starts_with(origin.name + "/");
      continue;
    }
    if (name == origin.name) return true;
    is_any_of_model = true;
  }
  return is_any_of_model && !is_added_name;
}

void Stages::report_contested() {
  for (const Contest& contest : contests_)
    if (const Op& op = graph_.op(contest.op); !is_free(contest.op) && !of_parameters_[contest.op.index])
      diags_.error("stage-twice", contest.loc, "'{}' is in stage '{}' already{}", op.name,
                   schedule_.pipeline->stages[static_cast<size_t>(contest.before)].name, merged_text(op));
}

/// Nodes that compute the same, or that a rewrite rule joined, are one op: each of their names selects it.
std::string Stages::merged_text(const Op& op) const {
  std::vector<std::string> names;
  for (const OriginId origin : op.origins)
    if (is_of_model(module_.origins[origin.index])) names.push_back("'" + module_.origins[origin.index].name + "'");
  return names.size() < 2 ? "" : ": " + join(names, " and ") + " have become one op";
}

}  // namespace weftc

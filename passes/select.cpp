// Resolves a schedule's names. A name may be that of an op, of a value, or of a node of the model, which may have
// become several ops; `{l}` binds a component and `*` stands for any text.
#include "passes/select.h"

#include <algorithm>
#include <set>

#include "ir/base/contains.h"
#include "ir/op_def.h"
#include "passes/constant_values.h"
#include "passes/graph_order.h"
#include "passes/suggest_names.h"

namespace weftc {

namespace {

/// A star selects a set, so the text that it matches does not distinguish instances.
void forget_stars(Bindings& bound) {
  std::erase_if(bound, [](const auto& entry) { return entry.first.starts_with('*'); });
}

bool has_pattern(const std::string& text) { return text.find_first_of("*{") != std::string::npos; }

/// Orders texts so that numbers inside compare as numbers.
bool natural_less(const std::string& a, const std::string& b) {
  const bool digits = !a.empty() && !b.empty() && std::all_of(a.begin(), a.end(), ::isdigit) &&
                      std::all_of(b.begin(), b.end(), ::isdigit);
  if (digits && a.size() != b.size()) return a.size() < b.size();
  return a < b;
}

bool bindings_less(const Bindings& a, const Bindings& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first != y.first ? x.first < y.first : natural_less(x.second, y.second);
  });
}

}  // namespace

ValueId find_again(const Module& module, const Graph& graph, ValueId value) {
  const auto again = module.again.find(graph.value(value).name);
  return again == module.again.end() ? ValueId{} : graph.find_value(again->second);
}

SelectableNames::SelectableNames(const Module& module, const Graph& graph, const Aliases& aliases)
    : module_(module), graph_(graph), aliases_(aliases) {
  for (const auto& [alias, names] : aliases)
    for (const std::string& name : names) aliases_of_[name].push_back(alias);
  add_new_ops();
}

const Aliases& SelectableNames::no_aliases() {
  static const Aliases none;
  return none;
}

void SelectableNames::add_bearer(const std::string& name, OpId id) {
  std::vector<OpId>& bearers = bearers_[name];
  if (bearers.empty() || !(bearers.back() == id)) bearers.push_back(id);
}

void SelectableNames::add_new_ops() {
  for (; taken_ < graph_.op_capacity(); ++taken_) {
    const OpId id{static_cast<uint32_t>(taken_)};
    if (!graph_.is_live(id)) continue;
    const Op& op = graph_.op(id);
    std::set<std::string> names{op.name};
    for (OriginId origin : op.origins) names.insert(module_.origins[origin.index].name);
    for (ValueId v : op.outputs) names.insert(graph_.value(v).name);
    for (const std::string& name : names) {
      add_bearer(name, id);
      const auto aliases = aliases_of_.find(name);
      if (aliases == aliases_of_.end()) continue;
      for (const std::string& alias : aliases->second) add_bearer(alias, id);
    }
  }
}

/// True if a live op has the name.
bool SelectableNames::is_borne(const Bearers::value_type& entry) const {
  return std::any_of(entry.second.begin(), entry.second.end(), [&](OpId id) { return graph_.is_live(id); });
}

bool SelectableNames::has(const std::string& name) const {
  const auto at = bearers_.find(name);
  return at != bearers_.end() && is_borne(*at);
}

std::vector<std::string> SelectableNames::all() const {
  std::vector<std::string> names;
  for (const auto& entry : bearers_)
    if (is_borne(entry)) names.push_back(entry.first);
  return names;
}

/// True if the name means the op: its own, that of a node it comes from, or an alias of these or of its result.
bool SelectableNames::means(const std::string& name, OpId id) const {
  const Op& op = graph_.op(id);
  if (const auto alias = aliases_.find(name); alias != aliases_.end()) {
    const bool of_value = std::any_of(op.outputs.begin(), op.outputs.end(),
                                      [&](ValueId v) { return contains(alias->second, graph_.value(v).name); });
    return of_value || std::any_of(alias->second.begin(), alias->second.end(),
                                   [&](const std::string& of) { return !aliases_.contains(of) && means(of, id); });
  }
  if (op.name == name) return true;
  // A reshard comes after its node and has that origin, but the node's name does not mean it.
  if (category(op) == Category::Collective) return false;
  return std::any_of(op.origins.begin(), op.origins.end(),
                     [&](OriginId origin) { return module_.origins[origin.index].name == name; });
}

std::vector<OpId> SelectableNames::ops(const std::string& name) const {
  const auto at = bearers_.find(name);
  if (at == bearers_.end()) return {};
  std::set<OpId> found;
  for (OpId id : at->second)
    if (graph_.is_live(id) && means(name, id)) found.insert(id);
  return in_graph_order(graph_, found);
}

std::vector<ValueId> SelectableNames::values(const std::string& name) const {
  if (const ValueId value = graph_.find_value(name)) return {value};
  const std::vector<OpId> parts = ops(name);
  std::vector<ValueId> results;
  for (OpId id : parts)
    for (ValueId v : graph_.op(id).outputs) {
      const auto& uses = graph_.value(v).uses;
      const bool outside =
          std::any_of(uses.begin(), uses.end(), [&](const Use& use) { return !use.op || !contains(parts, use.op); });
      if (outside) results.push_back(v);
    }
  return results;
}

std::vector<ValueId> SelectableNames::weights(const std::string& name) const {
  const std::vector<OpId> parts = ops(name);
  std::vector<ValueId> of_products, others;
  for (const OpId id : parts)
    for (size_t i = 0; i < graph_.op(id).inputs.size(); ++i) {
      const ValueId v = graph_.op(id).inputs[i];
      const bool belongs_to_words = graph_.op(id).kind == OpKind::BlockMatMul && i == 2;
      if (!v || belongs_to_words || !is_made_of_constants(graph_, v)) continue;
      // An op that the node was decomposed to may read its weight through further ops of the same node.
      const bool from_inside = graph_.producer_op(v).kind != OpKind::Constant && contains(parts, graph_.producer(v));
      std::vector<ValueId>& found = category(graph_.op(id)) == Category::Contraction ? of_products : others;
      if (!from_inside && !contains(found, v)) found.push_back(v);
    }
  if (!of_products.empty()) return of_products;
  int64_t most = 0;
  for (const ValueId v : others) most = std::max(most, graph_.type(v).count());
  std::erase_if(others, [&](ValueId v) { return graph_.type(v).count() < most; });
  return others;
}

/// Calls `found` with each matching name and the bindings of its variables, in order of the names.
template <class Found>
void SelectableNames::for_each_match(const std::string& pattern, const Found& found) const {
  const NamePattern names(pattern);
  std::vector<std::string> starts{names.start()};
  if (!starts[0].empty() && starts[0][0] != '/') starts.push_back("/" + starts[0]);
  for (const std::string& start : starts)
    for (auto at = bearers_.lower_bound(start); at != bearers_.end() && at->first.starts_with(start); ++at) {
      std::optional<Bindings> bound = names.match(at->first);
      if (!bound || !is_borne(*at)) continue;
      forget_stars(*bound);
      found(at->first, std::move(*bound));
    }
}

std::vector<Bindings> SelectableNames::bindings(const std::vector<Selector>& selectors) const {
  const auto first = std::find_if(selectors.begin(), selectors.end(),
                                  [](const Selector& s) { return NamePattern(s.text).has_variables(); });
  if (first == selectors.end()) return {{}};
  std::vector<Bindings> found;
  for_each_match(first->text, [&](const std::string&, Bindings bound) { found.push_back(std::move(bound)); });
  std::sort(found.begin(), found.end(), bindings_less);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<std::string> SelectableNames::matches(const Selector& selector, const Bindings& bindings) const {
  const std::string text = substitute(selector.text, bindings);
  if (!has_pattern(text)) return has(text) ? std::vector<std::string>{text} : std::vector<std::string>{};
  std::vector<std::string> found;
  for_each_match(text, [&](const std::string& name, const Bindings&) { found.push_back(name); });
  return found;
}

/// The ops that compute with a value: readers, through views of it.
static void collect_readers(const Graph& graph, ValueId value, std::vector<OpId>& readers) {
  for (const Use& use : graph.value(value).uses) {
    if (!use.op) continue;
    const Op& op = graph.op(use.op);
    const bool passes_on = category(op) == Category::View || category(op) == Category::Collective;
    if (passes_on)
      collect_readers(graph, op.outputs[0], readers);
    else
      readers.push_back(use.op);
  }
}

std::vector<OpId> SelectableNames::select_ops(const Selector& selector, const Bindings& bindings) const {
  std::set<OpId> found;
  for (const std::string& name : matches(selector, bindings)) {
    if (selector.kind == Selector::Kind::Weight) {
      for (ValueId v : weights(name)) found.insert(graph_.producer(v));
    } else if (selector.kind == Selector::Kind::Name) {
      for (OpId id : ops(name)) found.insert(id);
      if (ops(name).empty())
        for (ValueId v : values(name)) found.insert(graph_.producer(v));
    } else {
      std::vector<OpId> readers;
      for (ValueId v : values(name)) collect_readers(graph_, v, readers);
      found.insert(readers.begin(), readers.end());
    }
  }
  return in_graph_order(graph_, found);
}

std::vector<ValueId> SelectableNames::select_values(const Selector& selector, const Bindings& bindings) const {
  std::vector<ValueId> found;
  for (const std::string& name : matches(selector, bindings)) {
    if (selector.kind == Selector::Kind::Uses) {
      for (OpId id : select_ops({selector.kind, name, selector.loc}, {}))
        for (ValueId v : graph_.op(id).outputs) found.push_back(v);
      continue;
    }
    for (ValueId v : selector.kind == Selector::Kind::Weight ? weights(name) : values(name))
      if (!contains(found, v)) found.push_back(v);
  }
  return found;
}

/// The names into which a folded name went, through further folding: those that can be selected, or that no later
/// constant absorbed.
static std::set<std::string> folded_into(const Module& module, const SelectableNames& selectable,
                                         const std::string& name) {
  std::set<std::string> ends, seen{name};
  std::vector<std::string> front{name};
  while (!front.empty()) {
    const std::string at = front.back();
    front.pop_back();
    const auto next = module.folded.find(at);
    const bool ends_here = selectable.has(at) || next == module.folded.end();
    if (ends_here && at != name) {
      ends.insert(at);
      continue;
    }
    for (const std::string& into : next->second)
      if (seen.insert(into).second) front.push_back(into);
  }
  return ends;
}

OpId SelectableNames::find_holder(const Selector& selector) const {
  for (OpId id = graph_.first(); id; id = graph_.next(id))
    for (const Graph& region : graph_.op(id).regions) {
      const SelectableNames inside(module_, region);
      if (!inside.matches(selector, {}).empty() || inside.find_holder(selector)) return id;
    }
  return {};
}

void SelectableNames::report_unmatched(const Selector& selector, Diags& diags) const {
  if (const auto alias = aliases_.find(selector.text); alias != aliases_.end() && !alias->second.empty()) {
    report_unmatched({selector.kind, alias->second.front(), selector.loc}, diags);
    return;
  }
  const NamePattern pattern(selector.text);
  std::vector<std::string> candidates = all();
  for (const auto& [name, into] : module_.folded) {
    candidates.push_back(name);
    if (!pattern.match(name)) continue;
    const std::set<std::string> ends = folded_into(module_, *this, name);
    if (ends.empty()) continue;
    diags.error("selector-folded", selector.loc,
                "'{}' was folded into '{}' when the model was compiled: it is no value of its own any more", name,
                join({ends.begin(), ends.end()}, "', '"));
    return;
  }
  if (const OpId holder = find_holder(selector)) {
    const Op& op = graph_.op(holder);
    const bool is_made = op.kind == OpKind::Fused || op.kind == OpKind::Chunk;
    diags.error("selector-inside", selector.loc, "'{}' lies inside {} '{}' ({}): {}", shown_selector(selector),
                is_made ? "what an earlier step made," : "node", op.name, op_def(op).name,
                is_made ? "name that" : "of a schedule, only 'shard' reaches into branches and loops");
    return;
  }
  const auto known = std::find_if(module_.origins.begin(), module_.origins.end(),
                                  [&](const Origin& o) { return o.name == selector.text; });
  const bool is_node = known != module_.origins.end();
  if (is_node || module_.unread.contains(selector.text)) {
    const std::string what = is_node ? format("what node '{}' ({}) makes", selector.text, known->op_type)
                                     : format("value '{}'", selector.text);
    diags.error("selector-unread", selector.loc, "nothing reads {}: it was removed", what);
    return;
  }
  const auto has_weight = [this](const std::string& name) { return has(name) && !weights(name).empty(); };
  diags.error("selector-unmatched", selector.loc, "'{}' matches no node or value{}", shown_selector(selector),
              suggest_name(selector, candidates, has_weight));
}

}  // namespace weftc

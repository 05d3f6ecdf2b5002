#include "passes/sharding/shard_entries.h"

#include <algorithm>

#include "ir/base/contains.h"
#include "ir/op_def.h"
#include "passes/cost/cost_model.h"
#include "passes/layout/layout_requests.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

// An entry has to save more than this part of the whole time: a schedule of few lines is worth it.
constexpr int64_t kHardly = 2000;

/// The axes that slice a dim, coarse to fine.
std::vector<int> slicing_axes(const Layout& layout, int dim) {
  std::vector<int> axes;
  for (int axis = 0; axis < layout.size(); ++axis)
    if (layout[axis].is(Kind::S) && layout[axis].dim == dim) axes.push_back(axis);
  std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return layout[a].block > layout[b].block; });
  return axes;
}

/// True if a rank that has a value in layout `whole` has it in layout `cut`, too.
bool is_cut_of(const Layout& cut, const Layout& whole) {
  for (int axis = 0; axis < std::max(cut.size(), whole.size()); ++axis)
    if (!(cut[axis] == whole[axis]) && !whole[axis].is(Kind::R)) return false;
  return true;
}

}  // namespace

std::optional<std::vector<AxisRequest>> axis_requests(const TensorType& type, const Layout& layout,
                                                      const Layout& arriving, const Mesh& mesh) {
  std::vector<AxisRequest> requests;
  const int axes = std::max(layout.size(), arriving.size());
  for (int axis = 0; axis < axes; ++axis)
    if (layout[axis].is(Kind::R) && !arriving[axis].is(Kind::R))
      requests.push_back({{mesh[static_cast<size_t>(axis)].name}, true, 0, 1, {}});
  for (int dim = 0; dim < type.ndim(); ++dim) {
    const std::vector<int> slicing = slicing_axes(layout, dim);
    const bool is_new = std::ranges::any_of(slicing, [&](int axis) { return !(layout[axis] == arriving[axis]); });
    if (!is_new) continue;
    int64_t inside = type.shape[static_cast<size_t>(dim)].bound;
    std::vector<AxisRequest> of_dim;
    for (const int axis : slicing) {
      const int size = mesh[static_cast<size_t>(axis)].size;
      const int64_t block = layout[axis].block;
      const bool is_whole = inside % (block * size) == 0;
      if (!is_whole && slicing.size() > 1) return {};
      of_dim.push_back(
          {{mesh[static_cast<size_t>(axis)].name}, false, dim, is_whole ? inside / (block * size) : 1, {}});
      inside = block;
    }
    // Axes of one dim are read in the order of the mesh unless they are one product.
    if (!std::is_sorted(slicing.begin(), slicing.end())) {
      AxisRequest product{{}, false, dim, 1, {}};
      for (const AxisRequest& one : of_dim) {
        if (one.parts != 1) return {};
        product.axes.push_back(one.axes.front());
      }
      of_dim = {product};
    }
    requests.insert(requests.end(), of_dim.begin(), of_dim.end());
  }
  return requests;
}

EntrySearch::EntrySearch(Module& module, LayerClasses classes, Schedule schedule, const KeptLayouts& kept,
                         const Target& target, Cost cost)
    : module_(module),
      schedule_(std::move(schedule)),
      kept_(kept),
      target_(target),
      cost_(std::move(cost)),
      classes_(std::move(classes)),
      names_(module, module.graph) {}

std::optional<LayoutTrial> EntrySearch::lay_out() {
  Schedule schedule = schedule_;
  for (const Named& named : added_) schedule.shard.push_back(named.entry);
  Diags refused;
  LayoutTrial trial = try_layouts(module_, {schedule, target_, refused}, &known_);
  if (!refused.ok()) return {};
  return trial;
}

/// Adds one entry for the value in all layers where both its wanted and its arriving layout are the same, if a name
/// means just these values; false if no name does.
bool EntrySearch::add(ValueId value, bool use, const LayoutOf& wanted, const LayoutOf& arriving) {
  const Graph& graph = module_.graph;
  const Value& own = graph.value(value);
  std::vector<ValueId> same;
  for (const OpId member : classes_.class_of(own.producer).ops)
    if (const ValueId v = graph.op(member).outputs[own.result]; wanted(v) == wanted(value) &&
                                                                arriving(v) == arriving(value) &&
                                                                !asked_.contains({v, use}) && !kept_.has(v, use))
      same.push_back(v);
  if (!contains(same, value)) return false;
  for (const ValueId v : same) asked_.emplace(v, use);
  const Mesh mesh = module_.mesh(graph, graph.producer_op(value).place);
  const auto requests = axis_requests(own.type, wanted(value), arriving(value), mesh);
  if (!requests || requests->empty()) return false;
  const auto entry = [&](const std::string& text) {
    return ShardEntry{{Selector::Kind::Name, text, {}}, use, *requests};
  };
  for (const auto& [pattern, number] : layer_readings(own.name))
    if (same.size() > 1 && means(pattern, same)) {
      added_.push_back({entry(pattern), same});
      return true;
    }
  std::erase_if(same, [&](ValueId v) { return !means(graph.value(v).name, {v}); });
  for (const ValueId v : same) added_.push_back({entry(graph.value(v).name), {v}});
  return !same.empty();
}

/// True if a name means these values and no others.
bool EntrySearch::means(const std::string& text, std::vector<ValueId> wanted) const {
  const Selector selector{Selector::Kind::Name, text, {}};
  std::vector<ValueId> found;
  for (const Bindings& bindings : names_.bindings({selector}))
    for (const ValueId v : names_.select_values(selector, bindings)) found.push_back(v);
  std::sort(found.begin(), found.end()), std::sort(wanted.begin(), wanted.end());
  return found == wanted;
}

void EntrySearch::ask_for_sources() {
  const Graph& graph = module_.graph;
  for (const OpId id : graph.order())
    if (category(graph.op(id)) == Category::Source)
      add(
          graph.result(id), false, [&](ValueId v) { return wanted_.values[v.index]; },
          [](ValueId) { return Layout(); });
}

/// The layout that one reader wants and of which all other readers want slices; nothing where there is no such layout.
/// For instance, one reader gathers a parameter and another updates a slice of it: both can start from the gathered
/// layout.
std::optional<Layout> EntrySearch::common_use(ValueId value) const {
  std::vector<Layout> wanted;
  for (const Use& use : module_.graph.value(value).uses)
    if (use.op) wanted.push_back(wanted_.ops[use.op.index].operands[use.input]);
  for (const Layout& one : wanted)
    if (std::ranges::all_of(wanted, [&](const Layout& other) { return is_cut_of(other, one); })) return one;
  return {};
}

// All readers of a parameter gather it, or cut it, alike: `NAME.use`.
void EntrySearch::ask_for_uses() {
  const Graph& graph = module_.graph;
  const auto kept = [&](ValueId v) { return wanted_.values[v.index]; };
  for (const OpId id : graph.order())
    if (category(graph.op(id)) == Category::Source)
      add(
          graph.result(id), true, [&](ValueId v) { return common_use(v).value_or(kept(v)); }, kept);
}

/// Repeatedly adds an entry for the first value, in the graph's order, that readers do not find in the wanted layout.
/// Skips values whose entry changes nothing.
std::optional<int64_t> EntrySearch::ask_for_results() {
  const Graph& graph = module_.graph;
  std::set<ValueId> left;
  for (;;) {
    const std::optional<LayoutTrial> trial = lay_out();
    if (!trial) {
      if (added_.empty()) return {};
      added_.pop_back();
      continue;
    }
    bool is_changed = false;
    const auto wanted = [&](ValueId v) { return wanted_.values[v.index]; };
    const auto found = [&](ValueId v) { return trial->found[v.index]; };
    for (const OpId id : graph.order()) {
      if (category(graph.op(id)) == Category::Source) continue;
      for (const ValueId v : graph.op(id).outputs)
        if (!is_changed && !(found(v) == wanted(v)) && left.insert(v).second) is_changed = add(v, false, wanted, found);
      if (is_changed) break;
    }
    if (!is_changed) return cost_(trial->graph);
  }
}

std::optional<int64_t> EntrySearch::cost() {
  const std::optional<LayoutTrial> trial = lay_out();
  return trial ? std::optional(cost_(trial->graph)) : std::nullopt;
}

std::optional<int64_t> EntrySearch::cost_without(size_t entry) {
  const Named named = added_[entry];
  added_.erase(added_.begin() + static_cast<long>(entry));
  const std::optional<int64_t> without = cost();
  added_.insert(added_.begin() + static_cast<long>(entry), named);
  return without;
}

/// Drops entries without which the graph takes hardly longer than `cost`, its cost with all of them, from the last
/// entry on. Returns the new cost.
int64_t EntrySearch::drop_needless(int64_t cost) {
  if (cost >= kCannotRun) return cost;  // a part of that would be more than the savings of any entry
  const int64_t hardly = cost / kHardly;
  for (size_t e = added_.size(); e-- > 0;) {
    const auto is_demanded = [this](ValueId v) { return kept_.demands_slices(v); };
    if (std::ranges::any_of(added_[e].values, is_demanded)) continue;
    const std::optional<int64_t> without = cost_without(e);
    if (!without || *without > cost + hardly) continue;
    cost = *without;
    added_.erase(added_.begin() + static_cast<long>(e));
  }
  return cost;
}

/// True for a part of a decomposed node: "fc/MatMul" of a node "fc", and the same for derivatives.
bool EntrySearch::is_part(ValueId value) const {
  const std::string& name = module_.graph.value(value).name;
  return std::ranges::any_of(module_.graph.producer_op(value).origins, [&](OriginId origin) {
    const auto is_before = [&](OriginId node) { return name.starts_with(module_.origins[node.index].name + "/"); };
    return is_before(origin) || is_before(module_.forward_node(origin));
  });
}

/// Values of the same shape that are computed from this one alone or that it is computed from, nearest first.
std::vector<ValueId> EntrySearch::values_near(ValueId value) const {
  constexpr size_t kMostNear = 12;
  const Graph& graph = module_.graph;
  std::vector<ValueId> near = {value};
  const auto add = [&](ValueId v) {
    const bool is_alike = v && graph.type(v).shape == graph.type(value).shape;
    if (is_alike && near.size() < kMostNear && !contains(near, v)) near.push_back(v);
  };
  for (size_t i = 0; i < near.size(); ++i) {
    for (const Use& use : graph.value(near[i]).uses)
      if (use.op && graph.op(use.op).outputs.size() == 1) add(graph.op(use.op).outputs[0]);
    if (const Op& maker = graph.producer_op(near[i]); category(maker) != Category::Contraction)
      for (const ValueId v : maker.inputs) add(v);
  }
  near.erase(near.begin());
  return near;
}

/// The same entry for a value, or for all layers if it covers several, where one name means them.
std::optional<EntrySearch::Named> EntrySearch::about(ValueId value, const Named& named) const {
  const Value& own = module_.graph.value(value);
  const bool is_source = category(module_.graph.op(own.producer)) == Category::Source;
  if (is_part(value) || is_source || asked_.contains({value, false}) || kept_.has(value, false)) return {};
  Named made = named;
  made.values = {value};
  made.entry.target.text = own.name;
  if (named.values.size() == 1) return means(own.name, made.values) ? std::optional(made) : std::nullopt;
  made.values.clear();
  for (const OpId member : classes_.class_of(own.producer).ops)
    made.values.push_back(module_.graph.op(member).outputs[own.result]);
  for (const auto& [pattern, number] : layer_readings(own.name))
    if (made.values.size() == named.values.size() && means(pattern, made.values)) {
      made.entry.target.text = pattern;
      return made;
    }
  return {};
}

/// An entry about a part of a node is one about a value near it that the user knows, where that leads to the same.
void EntrySearch::use_known_names(int64_t cost) {
  constexpr int kMostTried = 2;
  if (cost >= kCannotRun) return;
  const int64_t hardly = cost / kHardly;
  for (Named& named : added_) {
    if (named.entry.use || !is_part(named.values.front())) continue;
    const Named before = named;
    int tried = 0;
    for (const ValueId value : values_near(named.values.front())) {
      const std::optional<Named> other = tried < kMostTried ? about(value, before) : std::nullopt;
      if (!other) continue;
      ++tried;
      named = *other;
      if (const std::optional<int64_t> now = this->cost(); now && *now <= cost + hardly) break;
      named = before;
    }
  }
}

std::vector<PlannedEntry> EntrySearch::find(ChosenLayouts wanted) {
  wanted_ = std::move(wanted);
  ask_for_sources();
  ask_for_uses();
  if (const std::optional<int64_t> cost = ask_for_results()) use_known_names(drop_needless(*cost));
  std::vector<PlannedEntry> entries;
  for (const Named& named : added_) entries.push_back({named.entry});
  return entries;
}

void add_shares(const Module& module, const Schedule& schedule, const LayoutTrial& trial,
                std::vector<PlannedEntry>& entries) {
  const Graph& graph = module.graph;
  const KeptLayouts all(module, schedule);
  const SelectableNames names(module, graph);
  for (PlannedEntry& planned : entries) {
    EntryShare& share = planned.share;
    const Selector& target = planned.entry.target;
    for (const Bindings& bindings : names.bindings({target}))
      for (const ValueId v : names.select_values(target, bindings)) {
        const Mesh mesh = module.mesh(graph, graph.producer_op(v).place);
        const bool is_source = category(graph.producer_op(v)) == Category::Source;
        const std::optional<Layout> asked = planned.entry.use ? all.use_of(v) : is_source ? all.of(v) : std::nullopt;
        TensorType type = graph.type(v);
        share.whole += local_bytes(type, mesh);
        type.layout = asked.value_or(trial.found[v.index]);
        share.of_rank += local_bytes(type, mesh);
        if (share.values++ == 0) share.type = std::move(type);
      }
  }
}

void EntrySearch::add_savings(std::vector<PlannedEntry>& entries) {
  added_.clear();
  for (const PlannedEntry& planned : entries) added_.push_back({planned.entry, {}});
  const std::optional<int64_t> with_all = cost();
  if (!with_all) return;
  for (size_t e = 0; e < entries.size(); ++e) {
    const std::optional<int64_t> without = cost_without(e);
    entries[e].saves = without ? *without - *with_all : 0;
    entries[e].is_needed = !without || (*without >= kCannotRun && *with_all < kCannotRun);
  }
}

}  // namespace weftc

#include "cli/plan/stage_layouts.h"

#include <algorithm>
#include <utility>

#include "cli/plan/layout_plans.h"
#include "passes/layout/layout_trial.h"

namespace weftc {

namespace {

/// The graph as a plan of the whole model lays it out; nothing where its entries are refused.
std::optional<Graph> laid_out(Compilation& c, const ShardingPlan& plan) {
  const Schedule schedule = with_plan(c.schedule, plan);
  const OnMesh on_mesh(c.module, plan.mesh);
  Diags refused;
  LayoutTrial trial = try_layouts(c.module, {schedule, c.target, refused});
  return refused.ok() ? std::optional(std::move(trial.graph)) : std::nullopt;
}

/// The slices of a layout: partial sums are complete when they are sent.
Layout without_partial_sums(Layout layout) {
  for (int axis = 0; axis < layout.size(); ++axis)
    if (layout[axis].is(AxisState::Kind::P)) layout.set(axis, {});
  return layout;
}

bool is_any_of(const std::set<int>& some, const std::set<int>& others) {
  return std::ranges::any_of(some, [&](int stage) { return others.contains(stage); });
}

}  // namespace

StageLayouts::StageLayouts(Compilation& c, const StageCells& cells, const std::vector<int>& stage_of_cells)
    : c_(c),
      cells_(cells),
      names_(c.module, c.module.graph, c.schedule.aliases),
      stages_(c.module.graph.op_capacity()) {
  const Graph& graph = c.module.graph;
  const std::vector<OpId> order = graph.order();
  for (auto at = order.rbegin(); at != order.rend(); ++at)
    if (const int cell = cells.cell_of[at->index]; cell >= 0)
      stages_[at->index] = {stage_of_cells[static_cast<size_t>(cell)]};
    else  // computed wherever it is read
      for (const ValueId v : graph.op(*at).outputs) stages_[at->index].merge(readers(v));
}

StageLayouts::Stages StageLayouts::readers(ValueId value) const {
  Stages found;
  for (const Use& use : c_.module.graph.value(value).uses)
    if (use.op) found.insert(stages_[use.op.index].begin(), stages_[use.op.index].end());
  return found;
}

const StageLayouts::Stages& StageLayouts::makers(ValueId value) const {
  return stages_[c_.module.graph.producer(value).index];
}

/// True if the value is made in the stage, and read in no other one unless that makes it too.
bool StageLayouts::is_inside(ValueId value, int stage) const {
  return makers(value).contains(stage) && std::ranges::includes(makers(value), readers(value));
}

bool StageLayouts::is_inside(const ShardEntry& entry, const Stages& stages) const {
  for (const Bindings& bindings : names_.bindings({entry.target}))
    for (const ValueId value : names_.select_values(entry.target, bindings))
      if (std::ranges::any_of(stages, [&](int stage) { return is_inside(value, stage); })) return true;
  return false;
}

/// True for a value of the forward pass that these stages read and places of other sizes make.
bool StageLayouts::is_received(ValueId value, const Stages& stages) const {
  const OpId maker = c_.module.graph.producer(value);
  return cells_.is_forward[maker.index] && cells_.cell_of[maker.index] >= 0 && is_any_of(stages, readers(value)) &&
         !is_any_of(stages, makers(value));
}

/// The layout in which all readers in these stages have the value; nullopt if they differ.
std::optional<Layout> StageLayouts::layout_read(ValueId value, const Stages& stages, const Graph& laid_out) const {
  std::optional<Layout> read;
  for (const Use& use : c_.module.graph.value(value).uses) {
    if (!use.op || !is_any_of(stages, stages_[use.op.index])) continue;
    if (!laid_out.is_live(use.op)) return {};
    const Layout layout = without_partial_sums(laid_out.type(laid_out.op(use.op).inputs[use.input]).layout);
    if (read && !(*read == layout)) return {};
    read = layout;
  }
  return read;
}

void StageLayouts::add_received(const Stages& stages, const Graph& laid_out, ShardingPlan& plan) const {
  const Graph& graph = c_.module.graph;
  for (const OpId id : graph.order())
    for (const ValueId v : graph.op(id).outputs) {
      const std::optional<Layout> layout = is_received(v, stages) ? layout_read(v, stages, laid_out) : std::nullopt;
      if (!layout) continue;
      ShardEntry entry{{Selector::Kind::Name, graph.value(v).name, {}}, true, {}};
      const auto requests = axis_requests(graph.type(v), *layout, {}, plan.mesh);
      const std::vector<Bindings> bindings = names_.bindings({entry.target});
      const bool means_it =
          bindings.size() == 1 && names_.select_values(entry.target, bindings.front()) == std::vector<ValueId>{v};
      if (!requests || requests->empty() || !means_it) continue;
      entry.axes = *requests;
      plan.entries.push_back({entry});
    }
}

ShardingPlan StageLayouts::of(const Stages& stages, ShardingPlan plan) const {
  const std::optional<Graph> whole = laid_out(c_, plan);
  std::erase_if(plan.entries, [&](const PlannedEntry& planned) { return !is_inside(planned.entry, stages); });
  if (whole) add_received(stages, *whole, plan);
  name_axes(c_.module, plan);
  return plan;
}

}  // namespace weftc

#include "passes/sharding/cell_costs.h"

#include <algorithm>

#include "ir/op_def.h"
#include "passes/layout/layout_trial.h"
#include "passes/sharding/sharding_costs.h"
#include "passes/transform/transforms.h"

namespace weftc {

namespace {

constexpr double kPicosecond = 1e-12;

/// By op of a laid-out graph: its cell. An op that the layouts have added goes with its operands. Sources, and ops that
/// are computed wherever they are read, go with their first reader.
std::vector<int> cells_of_ops(const Graph& graph, const std::vector<int>& known) {
  std::vector<int> cells = known;
  cells.resize(graph.op_capacity(), -1);
  const std::vector<OpId> order = graph.order();
  for (const OpId id : order)
    for (const ValueId v : graph.op(id).inputs)
      if (v && id.index >= known.size()) cells[id.index] = std::max(cells[id.index], cells[graph.producer(v).index]);
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    int& cell = cells[at->index];
    if (cell >= 0) continue;
    for (const ValueId v : graph.op(*at).outputs)
      for (const Use& use : graph.value(v).uses)
        if (const int reader = use.op ? cells[use.op.index] : -1; reader >= 0)
          cell = cell < 0 ? reader : std::min(cell, reader);
  }
  return cells;
}

CellCosts costs_of(const Module& module, const Graph& graph, const Machine& machine, const std::vector<int>& cells,
                   size_t count) {
  const Mesh& mesh = module.places.front().mesh;
  CellCosts costs{std::vector<double>(count, 0), std::vector<int64_t>(count, 0)};
  const auto add = [&](OpId id, int64_t picoseconds) {
    if (const int cell = cells[id.index]; cell >= 0)
      costs.seconds[static_cast<size_t>(cell)] += static_cast<double>(picoseconds) * kPicosecond;
  };
  for_each_cost(module, graph, machine.ceilings, exchange_seconds_on(machine, mesh), add);
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    const bool is_kept = op.kind == OpKind::Constant || (op.kind == OpKind::Input && is_state(module, op.outputs[0]));
    if (const int cell = cells[id.index]; is_kept && cell >= 0)
      costs.bytes[static_cast<size_t>(cell)] += local_bytes(graph.type(op.outputs[0]), mesh);
  }
  return costs;
}

}  // namespace

CellCosts cell_costs(Module& module, const Schedule& schedule, const Target& target, const Machine& machine,
                     const std::vector<int>& cell_of, size_t cells) {
  const OnMesh on_mesh(module, schedule.mesh);
  Diags refused;
  const LayoutTrial trial = try_layouts(module, {schedule, target, refused});
  if (!refused.ok()) return {};
  return costs_of(module, trial.graph, machine, cells_of_ops(trial.graph, cell_of), cells);
}

}  // namespace weftc

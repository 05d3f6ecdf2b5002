// Machines for plans of layouts, and what a schedule's layouts take on them: plans stand beside those that people
// write.
#pragma once
#include "ir/exchange_types.h"
#include "passes/layout/layout_trial.h"
#include "passes/sharding/plan_sharding.h"
#include "passes/sharding/value_peak.h"
#include "test/scheduled.h"

namespace weftc::test {

/// Ranks of one level; what they send takes as long as what they compute, about.
inline Machine flat_machine(int ranks, double bandwidth = 1e9, double latency = 1e-6) {
  Machine machine;
  machine.ceilings = ceilings_of(Target());
  machine.ranks = ranks;
  NetworkLevel level;
  level.name = "link", level.ranks = ranks, level.bandwidth = bandwidth, level.latency = latency;
  machine.levels = {level};
  return machine;
}

/// Ranks whose memory is so fast, and whose products are so slow, that each product is worth slicing and nothing else
/// counts but what is sent: Alpa's measure.
inline Machine machine_of_products(int ranks, double bandwidth = 1e9, double latency = 1e-6) {
  Machine machine = flat_machine(ranks, bandwidth, latency);
  machine.ceilings.memory = 1e15, machine.ceilings.f32 = 1e10, machine.ceilings.function = 1;
  return machine;
}

/// A model before apply-layouts, with a schedule without layouts.
inline std::unique_ptr<Scheduled> model_until_layouts(const std::string& model, const std::string& yaml, int ranks) {
  auto made = prepare(model, "weft: 1\nmesh: {x: " + std::to_string(ranks) + "}\n" + yaml, "bind-collectives");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  return made;
}

/// The same of a model in a file.
inline std::unique_ptr<Scheduled> file_until_layouts(const std::string& path, const std::string& yaml, int ranks) {
  auto made = std::make_unique<Scheduled>();
  std::optional<Schedule> schedule = read_schedule_text("s.yaml", "weft: 1\n" + yaml, made->diags);
  REQUIRE_MESSAGE(schedule, made->diags.text());
  made->schedule = std::move(*schedule);
  made->schedule.mesh = meshes_of(ranks).front();
  made->module = read_onnx({path, made->schedule.dims, {}, {}}, made->diags, &made->schedule);
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  RunOptions options;
  options.stop_after = "bind-collectives";
  run_pipeline(*made->module, {made->schedule, made->target, made->diags}, options, made->report);
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  return made;
}

/// The best plan of all, or of those on that mesh.
inline ShardingPlan best_plan(Scheduled& made, const Machine& machine, std::optional<Mesh> mesh = {}) {
  PlanLimits limits;
  limits.ranks = machine.ranks, limits.mesh = std::move(mesh), limits.near = 1e9;
  std::vector<ShardingPlan> plans = plan_sharding(*made.module, made.schedule, made.target, machine, limits);
  REQUIRE(!plans.empty());
  return std::move(plans.front());
}

/// By name: what an entry says of its only axis, "1", "0", "R".
inline std::map<std::string, std::string> entries_of(const ShardingPlan& plan) {
  std::map<std::string, std::string> entries;
  for (const PlannedEntry& planned : plan.entries) {
    const AxisRequest& axis = planned.entry.axes.front();
    const std::string parts = axis.parts > 1 ? " in " + std::to_string(axis.parts) : "";
    entries[planned.entry.target.text + (planned.entry.use ? ".use" : "")] =
        axis.replicated ? "R" : std::to_string(axis.dim) + parts;
  }
  return entries;
}

/// The time of a laid-out graph, and the communication of its ranks.
struct LaidOut {
  double seconds = 0;
  int64_t bytes = 0;    // that a rank sends
  int64_t largest = 0;  // of what a rank has of a value that is exchanged
  int64_t peak = 0;
  std::map<OpKind, int> exchanges;

  int count() const {
    int all = 0;
    for (const auto& [kind, times] : exchanges) all += times;
    return all;
  }
  std::string text() const {
    std::string text = format("{} ns, {} bytes sent, {} bytes held", std::llround(seconds * 1e9), bytes, peak);
    for (const auto& [kind, times] : exchanges) text += format(", {} {}", times, op_def(kind).name);
    return text;
  }
};

/// The module as the mesh and the entries of a schedule lay it out; nothing where they are refused.
inline std::optional<LaidOut> laid_out_by(Scheduled& made, const Mesh& mesh, const std::vector<ShardEntry>& entries,
                                          const Machine& machine) {
  Module& module = *made.module;
  module.places.front().mesh = mesh;
  Schedule schedule = made.schedule;
  schedule.mesh = mesh, schedule.shard = entries;
  Diags refused;
  const LayoutTrial trial = try_layouts(module, {schedule, made.target, refused});
  if (!refused.ok()) return {};
  const ExchangeSeconds exchange = exchange_seconds_on(machine, mesh);
  LaidOut laid;
  laid.seconds = static_cast<double>(laid_out_cost(module, trial.graph, machine.ceilings, exchange)) * 1e-12;
  laid.peak = value_peak(module, trial.graph).bytes;
  for (const OpId id : trial.graph.order()) {
    const Op& op = trial.graph.op(id);
    if (!is_exchange(op)) continue;
    const int64_t before = local_bytes(trial.graph.type(op.inputs[0]), mesh);
    const int64_t after = local_bytes(trial.graph.type(op.outputs[0]), mesh);
    ++laid.exchanges[op.kind];
    laid.bytes += bytes_sent(op.kind, before, after, group_size(op, mesh));
    laid.largest = std::max({laid.largest, before, after});
  }
  return laid;
}

inline LaidOut laid_out_by(Scheduled& made, const ShardingPlan& plan, const Machine& machine) {
  std::vector<ShardEntry> entries;
  for (const PlannedEntry& planned : plan.entries) entries.push_back(planned.entry);
  const std::optional<LaidOut> laid = laid_out_by(made, plan.mesh, entries, machine);
  REQUIRE(laid);
  return *laid;
}

/// The same for a handwritten schedule, on its mesh, whose only axis may get another size.
inline LaidOut laid_out_by(Scheduled& made, const std::string& yaml, const Machine& machine) {
  Diags diags;
  std::optional<Schedule> schedule = read_schedule_text("hand.yaml", yaml, diags);
  REQUIRE_MESSAGE(schedule, diags.text());
  if (schedule->mesh.size() == 1) schedule->mesh.front().size = machine.ranks;
  const std::optional<LaidOut> laid = laid_out_by(made, schedule->mesh, schedule->shard, machine);
  REQUIRE(laid);
  return *laid;
}

}  // namespace weftc::test

#include "cli/plan/layout_plans.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "cli/compile.h"
#include "cli/order_text.h"
#include "cli/table.h"
#include "frontend/schedule_writer.h"
#include "ir/op_def.h"
#include "passes/cost/cost_model.h"
#include "passes/layout/layout_trial.h"
#include "passes/transform/transforms.h"

namespace weftc {

namespace {

/// The kept text on a mesh.
std::string text_on(const PlanRequest& request, const Mesh& mesh) {
  return request.mesh ? request.kept : with_mesh(request.kept, mesh);
}

/// True if a value, by its name in an entry, is one of the samples of a batch: no parameter, and with as many rows as
/// an input has.
bool has_samples(const Module& module, const std::string& name) {
  const Graph& graph = module.graph;
  const ValueId value = graph.find_value(name);
  if (!value || graph.producer_op(value).kind == OpKind::Constant || is_state(module, value)) return false;
  return graph.type(value).ndim() > 0 && std::ranges::any_of(graph.inputs(), [&](ValueId input) {
           return !is_state(module, input) && graph.type(input).ndim() > 0 && graph.type(input).shape[0].bound > 1 &&
                  graph.type(input).shape[0] == graph.type(value).shape[0];
         });
}

int64_t bytes_of_sources(const Graph& graph) {
  int64_t bytes = 0;
  for (const OpId id : graph.order())
    if (category(graph.op(id)) == Category::Source)
      for (const ValueId v : graph.op(id).outputs) bytes += local_bytes(graph.type(v), {});
  return bytes;
}

/// An axis that slices samples is one of data; another one is of tensors.
std::vector<std::string> axis_names(const Module& module, const ShardingPlan& plan) {
  std::vector<bool> is_data(plan.mesh.size(), false);
  for (const PlannedEntry& planned : plan.entries)
    for (const AxisRequest& request : planned.entry.axes)
      for (size_t a = 0; a < plan.mesh.size(); ++a)
        if (request.dim == 0 && !request.replicated && std::ranges::count(request.axes, plan.mesh[a].name) > 0 &&
            has_samples(module, planned.entry.target.text))
          is_data[a] = true;
  std::vector<std::string> names;
  for (size_t a = 0; a < plan.mesh.size(); ++a) {
    const auto same = std::count(is_data.begin(), is_data.end(), is_data[a]);
    const auto before = std::count(is_data.begin(), is_data.begin() + static_cast<long>(a), is_data[a]);
    names.push_back((is_data[a] ? "dp" : "tp") + (same == 1 ? "" : std::to_string(before)));
  }
  return names;
}

}  // namespace

void name_axes(const Module& module, ShardingPlan& plan) {
  const std::vector<std::string> names = axis_names(module, plan);
  std::map<std::string, std::string> renamed;
  for (size_t a = 0; a < plan.mesh.size(); ++a) renamed[std::exchange(plan.mesh[a].name, names[a])] = names[a];
  for (PlannedEntry& planned : plan.entries)
    for (AxisRequest& request : planned.entry.axes)
      for (std::string& axis : request.axes) axis = renamed.at(axis);
}

std::unique_ptr<Compilation> compile_until_layouts(const Options& options, const PlanRequest& request, Diags& diags) {
  Options until = with_schedule(options, text_on(request, meshes_of(request.ranks).front()));
  until.stop_after = "bind-collectives";
  Diags found;
  std::unique_ptr<Compilation> c = compile_graph(until, found);
  // The user has not written this mesh, so diagnostics must not mention it.
  const auto is_about_mesh = [](const Diagnostic& one) { return one.id.starts_with("annotation-mesh"); };
  if (!request.mesh && std::ranges::any_of(found.all(), is_about_mesh))
    diags.error(
        "plan-annotated", Loc::in_file(options.model),
        "the model's device annotations say how many ranks it has, or which stages: for a plan of its own keep a "
        "schedule (--keep) with the line `annotations: none`");
  else
    diags.append(found);
  return c;
}

std::string seconds_text(double seconds) { return nanoseconds_text(std::llround(seconds * 1e9)); }

double ratio_of(double seconds, double best) { return best > 0 ? seconds / best : 1; }

std::string axes_text(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh) axes.push_back(format("{} {}", axis.name, axis.size));
  return join(axes, " x ");
}

std::string mesh_text(const PlanRequest& request, const ShardingPlan& plan) {
  const char* without = request.mesh ? ", nothing added" : ", all ranks alike";
  return axes_text(plan.mesh) + (plan.entries.empty() ? without : "");
}

std::string layout_table(const PlanRequest& request, const std::vector<ShardingPlan>& plans) {
  TableRows rows = {{"mesh", "predicted", "of the best", "exchanging", "collectives", "memory a rank"}};
  for (const ShardingPlan& plan : plans) {
    const std::string ratio = fixed(ratio_of(plan.seconds, plans.front().seconds), "%.2f");
    if (plan.is_bound)
      rows.push_back({axes_text(plan.mesh), "at least " + seconds_text(plan.seconds), ratio, "", "", ""});
    else
      rows.push_back({mesh_text(request, plan), seconds_text(plan.seconds), ratio, seconds_text(plan.exchanging()),
                      std::to_string(plan.collectives()), bytes_text(plan.peak)});
  }
  return table_text(rows);
}

Schedule with_plan(Schedule schedule, const ShardingPlan& plan) {
  schedule.mesh = plan.mesh;
  for (const PlannedEntry& planned : plan.entries) schedule.shard.push_back(planned.entry);
  return schedule;
}

std::vector<std::string> lines_of(const std::vector<PlannedEntry>& entries) {
  std::vector<std::string> lines;
  for (const PlannedEntry& planned : entries) lines.push_back(shard_text(planned.entry));
  return lines;
}

std::string saves_text(const PlannedEntry& planned) {
  if (planned.is_needed) return "without it a rank's memory is too small";
  return planned.saves > 0 ? "saves " + seconds_text(static_cast<double>(planned.saves) * 1e-12) : "";
}

std::optional<std::string> schedule_of(const PlanRequest& request, const ShardingPlan& plan, Diags& diags) {
  std::vector<ShardEntry> entries;
  std::vector<std::string> comments;
  for (const PlannedEntry& planned : plan.entries) {
    entries.push_back(planned.entry);
    comments.push_back(saves_text(planned));
  }
  return with_shard(request.file, text_on(request, plan.mesh), entries, diags, comments);
}

std::optional<LayoutPlans> plan_layouts(const Options& options, const PlanRequest& request, Diags& diags) {
  const std::unique_ptr<Compilation> c = compile_until_layouts(options, request, diags);
  if (!c) return {};
  PlanLimits limits;
  limits.ranks = request.ranks, limits.mesh = request.mesh, limits.explained = request.explained;
  // Kept entries are checked like those of any schedule.
  if (!c->schedule.shard.empty()) try_layouts(c->module, {c->schedule, c->target, diags});
  if (!diags.ok()) return {};
  LayoutPlans made{plan_sharding(c->module, c->schedule, c->target, request.machine, limits)};
  if (made.plans.empty()) made.least = least_memory(c->module, c->schedule, c->target, request.machine, limits);
  if (request.is_compared) made.known = known_plans(c->module, c->schedule, c->target, request.machine, limits);
  if (request.wants_data_parallel)
    made.data_parallel = data_parallel_plan(c->module, c->schedule, c->target, request.machine, limits);
  made.ops = static_cast<int64_t>(c->module.graph.op_count());
  made.weights = bytes_of_sources(c->module.graph);
  std::vector<ShardingPlan*> named;
  for (ShardingPlan& plan : made.plans) named.push_back(&plan);
  for (KnownPlan& known : made.known)
    if (known.plan) named.push_back(&*known.plan);
  if (made.data_parallel) named.push_back(&*made.data_parallel);
  for (ShardingPlan* plan : named)
    if (!request.mesh) name_axes(c->module, *plan);
  return made;
}

}  // namespace weftc

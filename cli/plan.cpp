// `weft plan`: a schedule from nothing. Layouts are searched for each mesh that the ranks can form; what is written is
// a schedule like any other, which a person can read, change and commit.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "cli/commands.h"
#include "cli/compile.h"
#include "cli/machine_use.h"
#include "cli/order_text.h"
#include "cli/process.h"
#include "cli/table.h"
#include "frontend/schedule_reader.h"
#include "frontend/schedule_writer.h"
#include "ir/op_def.h"
#include "passes/sharding/plan_sharding.h"
#include "passes/transform/transforms.h"

namespace weftc {

namespace {

std::string seconds_text(double seconds) { return nanoseconds_text(std::llround(seconds * 1e9)); }

/// "weft: 1", or the text of the schedule that is kept.
std::optional<std::string> kept_text(const Options& options, Diags& diags) {
  if (options.schedules.empty()) return "weft: 1\n";
  const auto piped = options.piped_schedules.find(options.schedules.front());
  if (piped != options.piped_schedules.end()) return piped->second;
  std::optional<std::string> text = read_file(options.schedules.front());
  if (!text)
    diags.error("plan-kept-unreadable", Loc::in_file(options.schedules.front()), "the schedule cannot be read");
  return text;
}

/// The graph in front of apply-layouts, on all ranks as one axis.
std::unique_ptr<Compilation> compile_until_layouts(const Options& options, const std::string& text, int ranks,
                                                   Diags& diags) {
  Options until = options;
  until.stop_after = "bind-collectives";
  until.schedules = {options.schedules.empty() ? "plan.yaml" : options.schedules.front()};
  until.piped_schedules[until.schedules.front()] = with_mesh(text, meshes_of(ranks).front());
  return compile_graph(until, diags);
}

/// What a plan needs of the schedule that is kept: it says nothing of where things run.
bool check_kept(const Schedule& schedule, Diags& diags) {
  const auto refuse = [&](bool has, const char* key) {
    if (has)
      diags.error("plan-kept-unsupported", Loc::in_file(schedule.file), "a plan chooses '{}': leave it out", key);
  };
  refuse(!schedule.mesh.empty(), "mesh");
  refuse(!schedule.shard.empty(), "shard");
  refuse(!schedule.places.empty(), "places");
  refuse(schedule.pipeline.has_value(), "pipeline");
  refuse(!schedule.transforms.empty(), "transform");
  return diags.ok();
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

void rename_axes(ShardingPlan& plan, const std::vector<std::string>& names) {
  std::map<std::string, std::string> renamed;
  for (size_t a = 0; a < plan.mesh.size(); ++a) renamed[std::exchange(plan.mesh[a].name, names[a])] = names[a];
  for (PlannedEntry& planned : plan.entries)
    for (AxisRequest& request : planned.entry.axes)
      for (std::string& axis : request.axes) axis = renamed.at(axis);
}

std::string axes_text(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh) axes.push_back(format("{} {}", axis.name, axis.size));
  return join(axes, " x ");
}

std::string mesh_text(const ShardingPlan& plan) {
  return axes_text(plan.mesh) + (plan.entries.empty() ? ", all ranks alike" : "");
}

/// The plans, the best first, with the margin of each to it; of some meshes only what they take at least.
std::string plans_text(const std::vector<ShardingPlan>& plans) {
  TableRows rows = {{"mesh", "predicted", "of the best", "exchanging", "collectives", "memory a rank"}};
  for (const ShardingPlan& plan : plans) {
    const std::string ratio = fixed(plan.seconds / plans.front().seconds, "%.2f");
    if (plan.is_bound)
      rows.push_back({axes_text(plan.mesh), "at least " + seconds_text(plan.seconds), ratio, "", "", ""});
    else
      rows.push_back({mesh_text(plan), seconds_text(plan.seconds), ratio, seconds_text(plan.exchanging),
                      std::to_string(plan.collectives), bytes_text(plan.peak)});
  }
  return table_text(rows);
}

std::optional<std::string> schedule_of(const std::string& kept, const ShardingPlan& plan, Diags& diags) {
  std::vector<ShardEntry> entries;
  std::vector<std::string> comments;
  for (const PlannedEntry& planned : plan.entries) {
    entries.push_back(planned.entry);
    comments.push_back(planned.is_needed   ? "without it a rank's memory is too small"
                       : planned.saves > 0 ? "saves " + seconds_text(static_cast<double>(planned.saves) * 1e-12)
                                           : "");
  }
  return with_shard("plan.yaml", with_mesh(kept, plan.mesh), entries, diags, comments);
}

}  // namespace

/// How many ranks the plan is for; nothing after reporting that the machine has fewer.
static std::optional<int> ranks_of(const Machine& machine, const Options& options, Diags& diags) {
  if (options.machine_ranks <= machine.ranks) return options.machine_ranks > 0 ? options.machine_ranks : machine.ranks;
  diags.error("plan-ranks", Loc::in_file(options.machine), "--ranks {}: the machine has {}", options.machine_ranks,
              machine.ranks);
  return {};
}

/// The best plan as the text of a schedule, after a table of all; nothing after reporting.
static std::optional<std::string> plan_text(Compilation& c, const std::string& kept, int ranks, Diags& diags) {
  PlanLimits limits;
  limits.ranks = ranks;
  std::vector<ShardingPlan> plans = plan_sharding(c.module, c.schedule, c.target, c.machine, limits);
  if (plans.empty()) {
    diags.error("plan-memory", Loc::in_file(c.module.file), "no layouts were found with which {} ranks of {} suffice",
                ranks, bytes_text(c.machine.memory));
    return {};
  }
  for (ShardingPlan& plan : plans) rename_axes(plan, axis_names(c.module, plan));
  std::fprintf(stderr, "%s", plans_text(plans).c_str());
  return schedule_of(kept, plans.front(), diags);
}

int run_plan(const Options& options) {
  Diags diags;
  if (!options.output.empty() && !check_output(options, diags)) return finish(diags);
  const std::optional<Machine> machine = machine_for(options, diags);
  const std::optional<int> ranks = machine ? ranks_of(*machine, options, diags) : std::nullopt;
  const std::optional<std::string> kept = ranks ? kept_text(options, diags) : std::nullopt;
  if (!kept) return finish(diags);
  const std::string file = options.schedules.empty() ? "plan.yaml" : options.schedules.front();
  const std::optional<Schedule> schedule = read_schedule_text(file, *kept, diags);
  if (!schedule || !check_kept(*schedule, diags)) return finish(diags);
  const std::unique_ptr<Compilation> c = compile_until_layouts(options, *kept, *ranks, diags);
  const std::optional<std::string> text = c ? plan_text(*c, *kept, *ranks, diags) : std::nullopt;
  if (!text) return finish(diags);
  if (options.output.empty())
    std::printf("%s", text->c_str());
  else if (const std::string why = write_file(options.output, *text); !why.empty())
    diags.error("plan-unwritable", Loc::in_file(options.output), "the schedule cannot be written: {}", why);
  return finish(diags);
}

}  // namespace weftc

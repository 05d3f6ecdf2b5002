// The layouts of a model for so many ranks of a machine, as schedules: names of axes, comments.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/compilation.h"
#include "cli/options.h"
#include "passes/sharding/plan_sharding.h"

namespace weftc {

/// What layouts are planned for.
struct PlanRequest {
  std::string file;        // what messages call the schedule that stays
  std::string kept;        // its text
  const Machine& machine;  // its memory is that of a rank; 0: not known
  int ranks = 1;
  std::optional<Mesh> mesh = {};  // of that schedule
  size_t explained = 1;           // of so many plans it is said what their entries save
  bool is_compared = false;       // with layouts that people know
  bool wants_data_parallel = false;
};

/// Plans of all meshes that the ranks can form, the best first. Their axes have names, `dp` where they slice samples
/// and `tp` else, unless the user has named them.
struct LayoutPlans {
  std::vector<ShardingPlan> plans;
  MemoryNeed least = {};                           // where the memory suffices for none
  std::vector<KnownPlan> known = {};               // where they are asked for
  std::optional<ShardingPlan> data_parallel = {};  // where it is asked for
  int64_t ops = 0, weights = 0;                    // of the graph; bytes of parameters and other sources
};
/// Nothing after reporting.
std::optional<LayoutPlans> plan_layouts(const Options& options, const PlanRequest& request, Diags& diags);

/// Names the axes of a plan by what its entries slice: `dp` samples, `tp` anything else.
void name_axes(const Module& module, ShardingPlan& plan);

/// The graph in front of apply-layouts, on the user's mesh or on all ranks as one axis. Nothing after reporting.
std::unique_ptr<Compilation> compile_until_layouts(const Options& options, const PlanRequest& request, Diags& diags);

/// The kept schedule with the mesh, if it has none, and the entries of a plan, each with what it saves.
std::optional<std::string> schedule_of(const PlanRequest& request, const ShardingPlan& plan, Diags& diags);

/// A schedule on the mesh of a plan, with its entries behind its own.
Schedule with_plan(Schedule schedule, const ShardingPlan& plan);
/// Entries as lines of `shard:`.
std::vector<std::string> lines_of(const std::vector<PlannedEntry>& entries);

/// What an entry saves, as its comment says it; "" for nothing.
std::string saves_text(const PlannedEntry& planned);

/// "dp 2 x tp 4".
std::string axes_text(const Mesh& mesh);
/// The same, and that there are no entries, or none but those of the user, where that is so.
std::string mesh_text(const PlanRequest& request, const ShardingPlan& plan);
/// The plans with the margin of each to the first; of some meshes only what they take at least.
std::string layout_table(const PlanRequest& request, const std::vector<ShardingPlan>& plans);

/// How many times as long as the best one: 1 of all where nothing is computed.
double ratio_of(double seconds, double best);
/// Seconds for people: "1.20 ms".
std::string seconds_text(double seconds);

}  // namespace weftc

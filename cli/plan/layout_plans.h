// The layouts of a model for some ranks of a machine, as schedules, with names of axes and comments.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/compilation.h"
#include "cli/options.h"
#include "passes/sharding/plan_sharding.h"

namespace weftc {

/// The task of a plan.
struct PlanRequest {
  std::string file;        // the name of the kept schedule in messages
  std::string kept;        // its text
  const Machine& machine;  // its memory is per rank; 0: unknown
  int ranks = 1;
  std::optional<Mesh> mesh = {};  // of that schedule
  size_t explained = 1;           // for this many plans the savings of entries are computed
  bool is_compared = false;       // with well-known layouts
  bool wants_data_parallel = false;
};

/// Plans for all meshes that the ranks can form, the best first. Unless the user named the axes, they are called `dp`
/// if they slice samples, and else `tp`.
struct LayoutPlans {
  std::vector<ShardingPlan> plans;
  MemoryNeed least = {};                           // if memory suffices for no plan
  std::vector<KnownPlan> known = {};               // if requested
  std::optional<ShardingPlan> data_parallel = {};  // if requested
  int64_t ops = 0, weights = 0;                    // ops of the graph; bytes of parameters and other sources
};
/// Nothing after reporting.
std::optional<LayoutPlans> plan_layouts(const Options& options, const PlanRequest& request, Diags& diags);

/// Names the axes of a plan by the dimensions that its entries slice: `dp` for samples, `tp` for anything else.
void name_axes(const Module& module, ShardingPlan& plan);

/// The graph before apply-layouts, on the user's mesh or on all ranks as one axis. Null after reporting.
std::unique_ptr<Compilation> compile_until_layouts(const Options& options, const PlanRequest& request, Diags& diags);

/// The kept schedule plus the plan's mesh (unless it has one) and entries, each with its savings.
std::optional<std::string> schedule_of(const PlanRequest& request, const ShardingPlan& plan, Diags& diags);

/// A schedule on the mesh of a plan, with the plan's entries appended.
Schedule with_plan(Schedule schedule, const ShardingPlan& plan);
/// Entries as lines of `shard:`.
std::vector<std::string> lines_of(const std::vector<PlannedEntry>& entries);

/// The comment on the savings of an entry; "" for none.
std::string saves_text(const PlannedEntry& planned);

/// "dp 2 x tp 4".
std::string axes_text(const Mesh& mesh);
/// The same, with a note if there are no entries, or only the user's.
std::string mesh_text(const PlanRequest& request, const ShardingPlan& plan);
/// The plans, each with its margin to the first. For some meshes only a lower bound is known.
std::string layout_table(const PlanRequest& request, const std::vector<ShardingPlan>& plans);

/// The time relative to the best one; always 1 if nothing is computed.
double ratio_of(double seconds, double best);
/// Seconds for people: "1.20 ms".
std::string seconds_text(double seconds);

}  // namespace weftc

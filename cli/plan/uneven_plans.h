// Pipelines whose stages have unequally many ranks.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cli/plan/layout_plans.h"
#include "passes/pipelining/placed_stages.h"

namespace weftc {

/// Layouts on this number of ranks with this many bytes each (0: enough), or null.
using LayoutsOn = std::function<const ShardingPlan*(int ranks, int64_t memory)>;

/// A schedule except for the number and order of micro-batches.
struct UnevenPlan {
  std::string what;          // "stages on 3, 1 ranks"
  std::string text;          // the kept one with layouts
  std::string places;        // lines of YAML
  std::string stages;        // lines of `pipeline:`
  std::vector<Mesh> meshes;  // by stage
  ShardingPlan layouts;      // of the place with most ranks
  PlacedStages placed;
  std::vector<int> promising;  // numbers of micro-batches for which the estimate beats all even stages
  std::string refused = {};    // why there is no such schedule
};

/// Numbers of micro-batches, from `least` on, into which the batch can be divided. Each is at least a quarter larger
/// than the previous one.
std::vector<int> micro_batch_counts(const Module& module, int least);

/// The cuts whose estimates beat stages of equally many ranks, and all ranks together, the best first. `c`: the module
/// before apply-layouts.
std::vector<UnevenPlan> plan_uneven_stages(Compilation& c, const PlanRequest& request, const LayoutsOn& layouts_on);

}  // namespace weftc

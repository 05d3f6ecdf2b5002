// Pipelines whose stages have unequally many ranks.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cli/plan/layout_plans.h"
#include "passes/pipelining/placed_stages.h"

namespace weftc {

/// Layouts on so many ranks with so many bytes each (0: enough); null where there are none.
using LayoutsOn = std::function<const ShardingPlan*(int ranks, int64_t memory)>;

/// A schedule that lacks how many micro-batches there are, and in which order.
struct UnevenPlan {
  std::string what;          // "stages on 3, 1 ranks"
  std::string text;          // the kept one with layouts
  std::string places;        // lines of YAML
  std::string stages;        // lines of `pipeline:`
  std::vector<Mesh> meshes;  // by stage
  ShardingPlan layouts;      // of the place with most ranks
  PlacedStages placed;
  std::vector<int> promising;  // numbers of micro-batches with which an estimate has it in front of all even stages
  std::string refused = {};    // why there is no schedule of that
};

/// Numbers of micro-batches from the least one on into which the batch can be divided, each a quarter more than the one
/// before it at least.
std::vector<int> micro_batch_counts(const Module& module, int least);

/// Those for which an estimate promises more than for stages of equally many ranks and for all ranks together, the best
/// first. `c`: the module in front of apply-layouts.
std::vector<UnevenPlan> plan_uneven_stages(Compilation& c, const PlanRequest& request, const LayoutsOn& layouts_on);

}  // namespace weftc

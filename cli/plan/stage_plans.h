// Pipelines for a model on so many ranks of a machine: how many stages, the layouts inside each, how many
// micro-batches, in which order.
#pragma once
#include <vector>

#include "cli/plan/layout_plans.h"
#include "cli/plan/predicted_schedule.h"

namespace weftc {

/// Schedules with 2, 3, ... stages of equally many ranks each, and with stages of unequally many, which may all be
/// faster than `best` seconds: those that an estimate from the layouts' times puts far behind it are left out. `whole`:
/// the best layouts on all ranks, if there are any. Diagnostics of the layouts, which the same request without stages
/// reports too, are not reported again.
std::vector<PredictedSchedule> plan_stages(const Options& options, const PlanRequest& request, bool trains, double best,
                                           const ShardingPlan* whole);

}  // namespace weftc

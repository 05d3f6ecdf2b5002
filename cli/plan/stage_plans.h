// Pipelines for a model on some ranks of a machine: the number of stages, the layouts inside each, the number of
// micro-batches, the order.
#pragma once
#include <vector>

#include "cli/plan/layout_plans.h"
#include "cli/plan/predicted_schedule.h"

namespace weftc {

/// Schedules with 2, 3, ... stages of equally or unequally many ranks that may be faster than `best` seconds. Schedules
/// that are much slower by an estimate from the layouts' times are left out. `whole`: the best layouts on all ranks, if
/// there are any. Diagnostics of the layouts are not reported, since the same request without stages reports them.
std::vector<PredictedSchedule> plan_stages(const Options& options, const PlanRequest& request, bool trains, double best,
                                           const ShardingPlan* whole);

}  // namespace weftc

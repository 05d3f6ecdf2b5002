// What the entries of layouts save in whole programs, behind fusion and overlap, where sums over ops have chosen them.
#pragma once
#include "cli/plan/layout_plans.h"
#include "cli/plan/predicted_schedule.h"

namespace weftc {

/// The layouts of `base` without those entries without which the program is predicted to be as fast or faster; of what
/// stays it is said what the program would take longer without it. Each entry is tried, so plans of more than a page of
/// entries are left as they are, as are those that cannot run.
PredictedSchedule plan_entries(const Options& options, const PlanRequest& request, const PredictedSchedule& base);

}  // namespace weftc

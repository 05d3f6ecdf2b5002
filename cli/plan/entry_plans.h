// What the entries of layouts save in whole programs, behind fusion and overlap, where sums over ops have chosen them.
#pragma once
#include "cli/plan/layout_plans.h"
#include "cli/plan/predicted_schedule.h"

namespace weftc {

/// The layouts of `base` without those entries that save less than a thousandth of the program's time; of what stays it
/// is said what the program would take longer without it. Each entry is tried, so plans of more than a page of entries
/// are left as they are, as are those that cannot run.
PredictedSchedule plan_entries(const Options& options, const PlanRequest& request, const PredictedSchedule& base);
/// The same by what sums over ops say that each entry saves: all are dropped at once, if the program runs without them
/// and takes no more than a thousandth longer.
PredictedSchedule drop_tiny_entries(const Options& options, const PlanRequest& request, const PredictedSchedule& base);

}  // namespace weftc

// Checks layout entries, which were chosen by sums over ops, by their savings in whole programs, after fusion and
// overlap.
#pragma once
#include "cli/plan/layout_plans.h"
#include "cli/plan/predicted_schedule.h"

namespace weftc {

/// The layouts of `base` without the entries that save less than a thousandth of the program's time. A comment on each
/// remaining entry says what it saves. Each entry is tried, so plans with more than kMostEntries entries stay
/// unchanged, as do plans that cannot run.
PredictedSchedule plan_entries(const Options& options, const PlanRequest& request, const PredictedSchedule& base);
/// The same with the savings from sums over ops. All small entries are dropped at once, if the program runs without
/// them and takes no more than a thousandth longer.
PredictedSchedule drop_tiny_entries(const Options& options, const PlanRequest& request, const PredictedSchedule& base);

}  // namespace weftc

// Fills the report of a plan from layouts, or at higher levels from compiled schedules.
#pragma once
#include "cli/plan/layout_plans.h"
#include "cli/plan/plan_report.h"
#include "cli/plan/predicted_schedule.h"

namespace weftc {

/// The report on layouts alone; there is at least one plan.
PlanReport report_of_layouts(const PlanRequest& request, const LayoutPlans& layouts);

/// The report on the schedules that were found, at least one of which can run, and on well-known ones.
PlanReport report_of_schedules(const PlanRequest& request, const LayoutPlans& layouts,
                               std::vector<PredictedSchedule> found, const std::vector<PredictedSchedule>& known);

}  // namespace weftc

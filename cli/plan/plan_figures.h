// Fills the report of a plan: from layouts, and at the levels above them from schedules that were compiled.
#pragma once
#include "cli/plan/layout_plans.h"
#include "cli/plan/plan_report.h"
#include "cli/plan/predicted_schedule.h"

namespace weftc {

/// Of layouts alone, of which there is at least one plan.
PlanReport report_of_layouts(const PlanRequest& request, const LayoutPlans& layouts);

/// Of schedules, one of which can run, and of those that people know.
PlanReport report_of_schedules(const PlanRequest& request, const LayoutPlans& layouts,
                               std::vector<PredictedSchedule> found, const std::vector<PredictedSchedule>& known);

}  // namespace weftc

// The debugging output of `compile`: printed and dumped graphs, the plan, times.
#pragma once
#include "cli/options.h"
#include "ir/plan.h"
#include "passes/plan/make_plan.h"
#include "passes/runner.h"

namespace weftc {

/// --print-ir-after on standard output, --dump-dir, --time-passes. False after reporting a file that cannot be written.
bool show_passes(const Options& options, const RunReport& report, Diags& diags);
/// --print-plan-after on standard output, --time-passes.
void show_planning(const Options& options, const std::vector<PlanningReport>& reports);
/// --dump-dir: the plan beside the graphs.
bool show_plan(const Options& options, const Plan& plan, Diags& diags);

}  // namespace weftc

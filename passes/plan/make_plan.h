// From the fused graph to the Plan (ir/README.md, P1-P8): kernels, weights, buffers, steps, signals, positions. The
// table of the steps is planning.h.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/schedule.h"

namespace weftc {

struct PlanningOptions {
  std::vector<std::string> print_after = {};  // names of planning steps; their Plans go to `printed`
  std::vector<KernelPin> pins = {};           // the schedule's `kernels:`
  std::string stop_before = {};               // a planning step; empty: all are done
};
/// Statistics of one planning step.
struct PlanningReport {
  std::string name;
  double seconds = 0;
  size_t steps = 0;  // of the Plan, afterwards
  std::string printed;
};

/// The module must be in form Fused and outlive the Plan. Nothing after reporting an unsupported feature. A Plan that a
/// step left other than it promised is an InternalError naming the step; `reports` has the steps until then.
std::optional<Plan> make_plan(const Module& module, const Target& target, Diags& diags, const PlanningOptions& options,
                              std::vector<PlanningReport>& reports);
std::optional<Plan> make_plan(const Module& module, const Target& target, Diags& diags);

}  // namespace weftc

// Planning as a second table after the pipeline: the steps that turn the fused graph into a Plan, in order.
#pragma once
#include <span>

#include "passes/plan/plan_parts.h"

namespace weftc {

/// One row of the table in planning.cpp.
struct PlanningStep {
  const char* name;   // also the function and --print-plan-after
  const char* after;  // the condition that holds afterwards, for the parts that exist by then
  void (*run)(PlanDraft&);
  /// Violations of the promise, one line each; each is a bug of the step. Changes nothing.
  std::vector<std::string> (*check)(const Plan&);
};

std::span<const PlanningStep> planning();

}  // namespace weftc

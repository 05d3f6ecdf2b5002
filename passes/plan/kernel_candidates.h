// What a tuner may try for kernels: their other legal strategies, as pins that stand behind those of the user's
// schedule.
#pragma once
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/schedule.h"
#include "passes/cost/cost_model.h"

namespace weftc {

struct KernelCandidates {
  std::string kernel;
  double seconds = 0;           // of all its launches in an invocation, as the cost model has it
  std::vector<KernelPin> pins;  // not what the Plan has already, and not what takes much longer by the cost model
};

/// The kernels of a Plan that have another strategy to try and are not pinned by the schedule, the costliest first.
std::vector<KernelCandidates> kernel_candidates(const Plan& plan, const Module& module, const CostModel& costs);
/// The strategy and its tile as explain prints them: "tiled-product 64x64".
std::string strategy_text(const KernelPin& pin);

}  // namespace weftc

// Candidates of a tuner for kernels: their other legal strategies, as pins that are added after those of the user's
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
  std::vector<KernelPin> pins;  // without the Plan's own choice
  size_t pruned = 0;            // legal ones that take much longer by the cost model
};
/// Promising: leaves out strategies that are much slower by the cost model, and tries one thread only for short
/// kernels. All: every legal strategy but plain loops, each by all threads and by one.
enum class Reach : uint8_t { Promising, All };

/// The kernels of a Plan that have another strategy to try and are not pinned by the schedule, the costliest first.
std::vector<KernelCandidates> kernel_candidates(const Plan& plan, const Module& module, const CostModel& costs,
                                                Reach reach = Reach::Promising);
/// How many of the costliest kernels together take at least that share of the total time.
size_t costliest(const std::vector<KernelCandidates>& kernels, double share);
/// The strategy and its parameters as explain prints them: "tiled-product 64x64".
std::string strategy_text(const KernelPin& pin);

}  // namespace weftc

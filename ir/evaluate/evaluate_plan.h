// Runs a Plan step by step on virtual ranks in one of its legal orders: on bytes, with poison (NaN) in memory
// that was not written, so that a missing wait or a buffer that is too small shows in some order. The proof
// (passes/proof) says that no order is wrong; this shows what a wrong one computes, and is what the proof is
// tested against.
#pragma once
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/tensor.h"

namespace weftc {

/// The results of one order, or what stopped it.
struct PlanRun {
  std::vector<Tensor> outputs;  // global, in the order of plan.outputs
  std::vector<Tensor> states;   // what the next iteration would read, in the order of plan.states
  std::string error;            // "" when well: a deadlock, ranks that disagree, an access out of bounds
};
/// `inputs`: global, one for each port of plan.inputs. `seed` chooses, again and again, which stream of which rank goes
/// on.
PlanRun evaluate_plan(const Plan& plan, const std::vector<Tensor>& inputs, uint32_t seed, int64_t invocation = 0);

}  // namespace weftc

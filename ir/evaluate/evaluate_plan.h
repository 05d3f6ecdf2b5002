// Runs a Plan step by step on virtual ranks in one of its legal orders. It works on bytes, with poison (NaN) in
// unwritten memory, so that a missing wait or a small buffer shows in some order. The proof (passes/proof) says that no
// order is wrong; this shows the results of a wrong one, and tests the proof.
#pragma once
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/tensor.h"

namespace weftc {

/// The results of one order, or the error that stopped it.
struct PlanRun {
  std::vector<Tensor> outputs;  // global, in the order of plan.outputs
  std::vector<Tensor> states;   // values for the next iteration, in the order of plan.states
  std::string error;            // "" on success: a deadlock, ranks that disagree, an access out of bounds
};
/// `inputs`: global, one for each port of plan.inputs. `seed` chooses the next stream and rank at each step.
PlanRun evaluate_plan(const Plan& plan, const std::vector<Tensor>& inputs, uint32_t seed, int64_t invocation = 0);

}  // namespace weftc

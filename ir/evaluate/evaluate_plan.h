// Runs a Plan step by step on virtual ranks in one of its legal orders: on bytes, with poison, so
// that a missing wait or a buffer that is too small shows in some order.
#pragma once
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/tensor.h"

namespace weftc {

struct PlanRun {
  std::vector<Tensor> outputs;  // global, in the order of plan.outputs
  std::vector<Tensor> states;   // what the next iteration would read, in the order of plan.states
  std::string error;            // "" when well: a deadlock, ranks that disagree, an access out of bounds
};
/// `inputs`: global, one for each port of plan.inputs. `seed` chooses, again and again, which stream of which rank goes
/// on.
PlanRun evaluate_plan(const Plan& plan, const std::vector<Tensor>& inputs, uint32_t seed, int64_t invocation = 0);

}  // namespace weftc

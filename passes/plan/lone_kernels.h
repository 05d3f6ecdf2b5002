// Kernels by themselves: a Plan whose only steps are launches of some kernels of other Plans, one behind the other, on
// memory of their own. `weft tune` times it, since it compiles in a second whatever the size of the model.
//
//   block run                           block run
//     launch h_c_fc     ln, w -> fc       launch h_c_fc     ln, w -> fc      packed-product
//     launch h_c_proj   fc, v -> y        launch h_c_fc_2   ln, w -> fc      strided-product
//     ...
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "passes/plan/make_plan.h"

namespace weftc {

/// A Plan as far as kernels, storages and weights are decided: steps have no order yet, and nothing has a position.
/// Nothing after reporting.
std::optional<Plan> plan_kernels(const Module& module, const Target& target, Diags& diags,
                                 const std::vector<KernelPin>& pins);

/// The kernel that a step of such a Plan launches. Steps have their names in every Plan of a module, kernels may not:
/// where operands lie in another way, what was one kernel is two.
struct LoneKernel {
  const Plan* plan;
  std::string step;
};
/// The first step that launches a kernel outside of loops and branches; "" if there is none.
std::string step_of_kernel(const Plan& plan, const std::string& kernel);
/// Why a kernel cannot be launched by itself; empty: it can.
std::string lone_refusal(const LoneKernel& lone);
/// The launches in this order; the step of the one of number i is called `lone_step_name(i)`. What they read are inputs
/// of the Plan, shared where it lies alike; there are no outputs. All Plans are of one module.
Plan lone_plan(const Module& module, const std::vector<LoneKernel>& kernels, Diags& diags);
std::string lone_step_name(size_t number);

}  // namespace weftc

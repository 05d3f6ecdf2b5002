// Kernels by themselves: a Plan whose only steps are launches of some kernels of other Plans, one after another, on
// memory of their own. `weft tune` times it, because it compiles in a second whatever the size of the model.
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

/// A Plan with its kernels, storages and weights decided, but no order of steps and no positions. Nothing after
/// reporting.
std::optional<Plan> plan_kernels(const Module& module, const Target& target, Diags& diags,
                                 const std::vector<KernelPin>& pins);

/// The kernel that a step of such a Plan launches. The names of steps are the same in every Plan of a module, but the
/// names of kernels may differ: where operands lie in another way, one kernel becomes two.
struct LoneKernel {
  const Plan* plan;
  std::string step;
};
/// The first step outside of loops and branches that launches a kernel; "" if no step does.
std::string step_of_kernel(const Plan& plan, const std::string& kernel);
/// Why a kernel cannot be launched by itself; empty: it can.
std::string lone_refusal(const LoneKernel& lone);
/// Launches the kernels in this order; the step of number i is called `lone_step_name(i)`. The operands are inputs of
/// the Plan, shared between launches that store them alike; there are no outputs. All Plans are of one module.
Plan lone_plan(const Module& module, const std::vector<LoneKernel>& kernels, Diags& diags);
std::string lone_step_name(size_t number);

}  // namespace weftc

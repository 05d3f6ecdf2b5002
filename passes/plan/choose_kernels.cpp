// Gives every kernel its strategy, and the weights that it reads the packing that the strategy wants.
#include "passes/cost/cost_model.h"
#include "passes/plan/plan_parts.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

namespace {

/// Kernels that the one kernel of a loop over chunks calls.
void note_chunk_kernels(const std::vector<Step>& steps, bool in_chunks, std::vector<bool>& called) {
  for (const Step& step : steps) {
    if (const auto* launch = std::get_if<LaunchStep>(&step.what); launch && in_chunks)
      called[launch->kernel.index] = true;
    const auto* loop = std::get_if<ForStep>(&step.what);
    const bool is_one_kernel = loop && loop->mechanism != Mechanism::Streams;
    for (const std::vector<Step>* body : bodies_of(step)) note_chunk_kernels(*body, in_chunks || is_one_kernel, called);
  }
}

/// A product or convolution in plain loops is many times slower than it could be: whoever compiles is told.
void warn_of_plain_loops(PlanDraft& planning, const Kernel& kernel) {
  constexpr double kMany = 1e6;
  const auto* plain = std::get_if<PlainLoops>(&kernel.strategy);
  if (!plain) return;
  const double operations = contraction_operations(planning.module, kernel);
  if (operations <= kMany) return;
  const Loc loc =
      kernel.origins.empty() ? Loc::in_file(planning.module.file) : planning.plan.origins[kernel.origins[0].index].loc;
  planning.diags.warning("plain-loops", loc, "{} million operations of kernel '{}' run as plain loops: {}",
                         static_cast<int64_t>(operations / 1e6), kernel.name, plain->why);
}

}  // namespace

void choose_kernels(PlanDraft& planning) {
  Plan& plan = planning.plan;
  std::vector<bool> in_chunks(plan.kernels.size(), false);
  for (const Block& block : plan.blocks) note_chunk_kernels(block.steps, false, in_chunks);
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    Kernel& kernel = plan.kernels[k];
    const KernelBody body(kernel, plan.places[kernel.place.index].mesh.size());
    const Constants& constants = planning.module.constants;
    set_strategy(kernel, choose_strategy({body, constants, plan.target}));
    if (in_chunks[k] && plan.target.is_device())
      kernel.in_chunks = choose_strategy({body, constants, plan.target, KernelUse::InChunks});
    warn_of_plain_loops(planning, kernel);
  }
}

}  // namespace weftc

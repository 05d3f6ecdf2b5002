// Gives every kernel its strategy, the one that the schedule names or the best that is legal, and the weights that it
// reads the packing that the strategy wants.
#include "passes/cost/cost_model.h"
#include "passes/plan/kernel_pins.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

namespace {

/// A product or convolution in plain loops is many times slower than it could be: whoever compiles is told.
void warn_of_plain_loops(PlanDraft& planning, const Kernel& kernel) {
  constexpr double kMany = 1e6;
  const auto* plain = std::get_if<PlainLoops>(&kernel.strategy);
  if (!plain || kernel.pin.kind != Loc::Kind::None) return;
  const double operations = contraction_operations(planning.module, kernel);
  if (operations <= kMany) return;
  const Loc loc =
      kernel.origins.empty() ? Loc::in_file(planning.module.file) : planning.plan.origins[kernel.origins[0].index].loc;
  planning.diags.warning("plain-loops", loc, "{} million operations of kernel '{}' run as plain loops: {}",
                         static_cast<int64_t>(operations / 1e6), kernel.name, plain->why);
}

/// The strategy of a pinned kernel; where it is not legal, the one that would be chosen, after reporting.
Strategy pinned_strategy(PlanDraft& planning, const KernelPin& pin, StrategyContext context) {
  context.tile = pin.tile;
  Verdict verdict = find_strategy(context, pin.strategy);
  if (verdict.strategy) return std::move(*verdict.strategy);
  context.tile.clear();
  const bool is_for_tile = find_strategy(context, pin.strategy).strategy.has_value();
  planning.diags.error("kernel-strategy", is_for_tile ? pin.tile_loc : pin.strategy_loc,
                       "kernel '{}' cannot be computed by {}: {}", context.body.kernel.name, pin.strategy, verdict.why);
  return choose_strategy(context);
}

}  // namespace

void choose_kernels(PlanDraft& planning) {
  Plan& plan = planning.plan;
  const std::vector<KernelUses> uses = kernel_uses(plan);
  const std::vector<const KernelPin*> pins = pins_of_kernels(planning);
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    Kernel& kernel = plan.kernels[k];
    const KernelBody body(kernel, plan.places[kernel.place.index].mesh.size());
    const auto strategy = [&](KernelUse use) {
      const StrategyContext context{body, planning.module.constants, plan.target, use};
      return pins[k] ? pinned_strategy(planning, *pins[k], context) : choose_strategy(context);
    };
    if (pins[k]) kernel.pin = pins[k]->strategy_loc;
    const bool calls = uses[k].in_chunks && plan.target.has_grid();
    if (calls) kernel.in_chunks = strategy(KernelUse::InChunks);
    set_strategy(kernel, calls && !uses[k].launched ? *kernel.in_chunks : strategy(KernelUse::Launched));
    warn_of_plain_loops(planning, kernel);
  }
}

}  // namespace weftc

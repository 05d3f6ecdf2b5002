// The kernels with the most operations are asked for every legal strategy. One that the cost model puts at less than a
// quarter of the current one's rate is not worth a compilation.
#include "passes/plan/kernel_candidates.h"

#include <algorithm>

#include "ir/plan_walk.h"
#include "passes/cost/strategy_rate.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

namespace {

void add_seconds(const CostModel& costs, const std::vector<Step>& steps, double times, bool in_chunks,
                 std::vector<double>& seconds) {
  for (const Step& step : steps) {
    if (const auto* launch = std::get_if<LaunchStep>(&step.what))
      seconds[launch->kernel.index] += times * costs.of(step, 0, in_chunks).seconds;
    const auto* loop = std::get_if<ForStep>(&step.what);
    const bool is_one_kernel = loop && loop->mechanism != Mechanism::Streams;
    for (const std::vector<Step>* body : bodies_of(step))
      add_seconds(costs, *body, loop ? times * loop->trips : times, in_chunks || is_one_kernel, seconds);
  }
}

std::vector<int64_t> tile_of(const Strategy& strategy) {
  if (const auto* product = std::get_if<TiledProduct>(&strategy)) return {product->tile.m, product->tile.n};
  if (const auto* convolution = std::get_if<TiledConvolution>(&strategy))
    return {convolution->tile.m, convolution->tile.n};
  return {};
}

/// Whether a strategy can be expected to come near the other one: rates are known within a factor of a few.
bool is_promising(const Strategy& strategy, const Strategy& other, const Kernel& kernel, const Target& target) {
  constexpr double kLeastShare = 0.25;
  const DType dtype = kernel.parameters.back().type.dtype;
  return strategy_rate(strategy, target, dtype).part >= kLeastShare * strategy_rate(other, target, dtype).part;
}

std::vector<KernelPin> pins_to_try(const Plan& plan, const Module& module, const Kernel& kernel, KernelUse use) {
  const KernelBody body(kernel, plan.places[kernel.place.index].mesh.size());
  const Strategy& now = use == KernelUse::InChunks ? *kernel.in_chunks : kernel.strategy;
  std::vector<KernelPin> pins;
  if (std::holds_alternative<Append>(now)) return pins;  // nothing else leaves out what is there already
  if (kernel.pin_name.empty()) return pins;              // a schedule could not tell it from others
  for (const Strategy& strategy : legal_strategies({body, module.constants, plan.target, use})) {
    const bool is_now = strategy.index() == now.index() && tile_of(strategy) == tile_of(now);
    if (!is_now && is_promising(strategy, now, kernel, plan.target))
      pins.push_back({kernel.pin_name, strategy_name(strategy), tile_of(strategy), {}, {}, {}});
  }
  return pins;
}

}  // namespace

std::vector<KernelCandidates> kernel_candidates(const Plan& plan, const Module& module, const CostModel& costs) {
  std::vector<double> seconds(plan.kernels.size(), 0);
  for (const Block& block : plan.blocks) add_seconds(costs, block.steps, 1, false, seconds);
  const std::vector<KernelUses> uses = kernel_uses(plan);
  std::vector<KernelCandidates> found;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const Kernel& kernel = plan.kernels[k];
    const bool in_chunks = kernel.in_chunks.has_value();
    // A pin holds for both uses, whose legal strategies differ.
    if (kernel.pin.kind != Loc::Kind::None || (in_chunks && uses[k].launched)) continue;
    std::vector<KernelPin> pins =
        pins_to_try(plan, module, kernel, in_chunks ? KernelUse::InChunks : KernelUse::Launched);
    if (!pins.empty()) found.push_back({kernel.name, seconds[k], std::move(pins)});
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return found;
}

std::string strategy_text(const KernelPin& pin) {
  return pin.tile.empty() ? pin.strategy : pin.strategy + " " + dims_text(pin.tile);
}

}  // namespace weftc

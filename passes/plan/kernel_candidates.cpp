// The kernels with the most operations are asked for every legal strategy. One that the cost model puts at less than a
// quarter of the current one's rate is not worth a compilation.
#include "passes/plan/kernel_candidates.h"

#include <algorithm>
#include <set>

#include "ir/plan_walk.h"
#include "passes/cost/strategy_rate.h"
#include "passes/strategy/convolution_price.h"
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
  if (const auto* winograd = std::get_if<WinogradConvolution>(&strategy)) return {winograd->tile, winograd->tile};
  return {};
}

int64_t panels_of(const Strategy& strategy) {
  const auto* unfolded = std::get_if<UnfoldedConvolution>(&strategy);
  return unfolded ? unfolded->panels : 0;
}

/// Whether a strategy can be expected to come near the other one: rates are known within a factor of a few.
bool is_promising(const Strategy& strategy, const Strategy& other, const KernelBody& body, const Target& target) {
  constexpr double kLeastShare = 0.25;
  const std::optional<double> seconds = convolution_seconds(strategy, body, target);
  const std::optional<double> of_other = convolution_seconds(other, body, target);
  if (seconds && of_other) return *of_other >= kLeastShare * *seconds;
  const DType dtype = body.kernel.parameters.back().type.dtype;
  return strategy_rate(strategy, target, dtype).part >= kLeastShare * strategy_rate(other, target, dtype).part;
}

/// Gathers candidates for one kernel.
class PinList {
 public:
  PinList(const Plan& plan, const Kernel& kernel, Reach reach, double seconds, KernelCandidates& found)
      : kernel_(kernel), target_(plan.target), reach_(reach), seconds_(seconds), found_(found) {}

  void run(const Module& module, size_t ranks_of_place, KernelUse use) {
    const KernelBody body(kernel_, ranks_of_place);
    const Strategy& now = use == KernelUse::InChunks ? *kernel_.in_chunks : kernel_.strategy;
    if (std::holds_alternative<Append>(now)) return;  // no other strategy skips the data that is there already
    if (kernel_.pin_name.empty()) return;             // a schedule could not tell it from others
    const bool by_one = !target_.has_grid() && use == KernelUse::Launched;
    for (const Strategy& strategy : legal_strategies({body, module.constants, target_, use})) {
      const bool is_now =
          strategy.index() == now.index() && tile_of(strategy) == tile_of(now) && panels_of(strategy) == panels_of(now);
      if (!is_now) add(strategy, now, body);
      if (by_one && (reach_ == Reach::All || (is_now && seconds_ < kFewSeconds))) add_pin(strategy, true);
    }
  }

 private:
  /// In which a second thread may come too late, or take from the first one, with which it shares a core, more than it
  /// gives.
  static constexpr double kFewSeconds = 500e-6;

  void add(const Strategy& strategy, const Strategy& now, const KernelBody& body) {
    if (reach_ == Reach::Promising && !is_promising(strategy, now, body, target_))
      ++found_.pruned;
    else
      add_pin(strategy, false);
  }
  void add_pin(const Strategy& strategy, bool one_thread) {
    KernelPin pin{kernel_.pin_name, strategy_name(strategy), tile_of(strategy), {}, {}, {}};
    pin.panels = panels_of(strategy), pin.one_thread = one_thread;
    found_.pins.push_back(std::move(pin));
  }

  const Kernel& kernel_;
  const Target& target_;
  const Reach reach_;
  const double seconds_;  // of a launch
  KernelCandidates& found_;
};

}  // namespace

std::vector<KernelCandidates> kernel_candidates(const Plan& plan, const Module& module, const CostModel& costs,
                                                Reach reach) {
  std::vector<double> seconds(plan.kernels.size(), 0);
  for (const Block& block : plan.blocks) add_seconds(costs, block.steps, 1, false, seconds);
  const std::vector<KernelUses> uses = kernel_uses(plan);
  std::vector<KernelCandidates> found;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const Kernel& kernel = plan.kernels[k];
    const bool in_chunks = kernel.in_chunks.has_value();
    // A pin holds for both uses, whose legal strategies differ.
    if (kernel.pin.kind != Loc::Kind::None || (in_chunks && uses[k].launched)) continue;
    KernelCandidates candidates{kernel.name, seconds[k], {}, 0};
    const double of_launch = seconds[k] / static_cast<double>(std::max<size_t>(1, kernel.users.size()));
    PinList(plan, kernel, reach, of_launch, candidates)
        .run(module, plan.places[kernel.place.index].mesh.size(),
             in_chunks ? KernelUse::InChunks : KernelUse::Launched);
    if (!candidates.pins.empty()) found.push_back(std::move(candidates));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  // Kernels that differ in how their operands lie have one name in a schedule, which means all of them.
  std::set<std::string> named;
  std::erase_if(found, [&](const KernelCandidates& each) { return !named.insert(each.pins.front().name).second; });
  return found;
}

size_t costliest(const std::vector<KernelCandidates>& kernels, double share) {
  double all = 0, sum = 0;
  for (const KernelCandidates& kernel : kernels) all += kernel.seconds;
  size_t count = 0;
  while (count < kernels.size() && (count == 0 || sum < share * all)) sum += kernels[count++].seconds;
  return count;
}

std::string strategy_text(const KernelPin& pin) {
  return pin.strategy + (pin.tile.empty() ? "" : " " + dims_text(pin.tile)) +
         (pin.panels ? format(" {} panels", pin.panels) : "") + (pin.one_thread ? ", one thread" : "");
}

}  // namespace weftc

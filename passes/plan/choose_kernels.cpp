// Gives every kernel its strategy, the one that the schedule names or the best that is legal, and the weights that it
// reads the packing that the strategy wants.
#include "passes/cost/cost_model.h"
#include "passes/plan/image_agreement.h"
#include "passes/plan/kernel_pins.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

namespace {

/// A product or convolution in plain loops is many times slower than it could be, so the compiler warns of it.
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

/// Asks the rules for the kernels of a Plan that has its steps.
class KernelChooser {
 public:
  explicit KernelChooser(PlanDraft& planning)
      : planning_(planning), plan_(planning.plan), uses_(kernel_uses(planning.plan)) {}

  void run() {
    name_kernels_for_pins(planning_);
    const std::vector<const KernelPin*> pins =
        pins_of_kernels(planning_, [&](const KernelPin& pin, size_t k) { return is_legal(pin, k); });
    std::vector<StrategyChoice> choices;
    for (size_t k = 0; k < plan_.kernels.size(); ++k) choices.push_back(choose(k, pins[k]));
    agree_on_images(planning_, choices);
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      set_strategy(plan_.kernels[k], std::move(choices[k].strategy));
      warn_of_plain_loops(planning_, plan_.kernels[k]);
    }
  }

 private:
  bool is_called(size_t k) const { return uses_[k].in_chunks && plan_.target.has_grid(); }
  bool is_launched(size_t k) const { return uses_[k].launched || !is_called(k); }

  StrategyContext context(const KernelBody& body, KernelUse use) const {
    return {body, planning_.module.constants, plan_.target, use};
  }
  KernelBody body_of(const Kernel& kernel) const {
    return KernelBody(kernel, plan_.places[kernel.place.index].mesh.size());
  }

  bool is_legal(const KernelPin& pin, size_t k) const {
    const KernelBody body = body_of(plan_.kernels[k]);
    const auto legal_for = [&](KernelUse use) {
      StrategyContext asked = context(body, use);
      asked.tile = pin.tile, asked.panels = pin.panels;
      return find_strategy(asked, pin.strategy).strategy.has_value();
    };
    return (!is_called(k) || legal_for(KernelUse::InChunks)) && (!is_launched(k) || legal_for(KernelUse::Launched));
  }

  /// The strategy of a pinned kernel; where it is not legal, the one that would be chosen, after reporting.
  Strategy pinned(const KernelPin& pin, StrategyContext context) const {
    context.tile = pin.tile, context.panels = pin.panels;
    Verdict verdict = find_strategy(context, pin.strategy);
    if (verdict.strategy) return std::move(*verdict.strategy);
    context.tile.clear(), context.panels = 0;
    const bool is_for_tile = find_strategy(context, pin.strategy).strategy.has_value();
    planning_.diags.error("kernel-strategy", is_for_tile ? pin.tile_loc : pin.strategy_loc,
                          "kernel '{}' cannot be computed by {}: {}", context.body.kernel.name, pin.strategy,
                          verdict.why);
    return choose_strategy(context).strategy;
  }

  StrategyChoice choose(size_t k, const KernelPin* pin) {
    Kernel& kernel = plan_.kernels[k];
    const KernelBody body = body_of(kernel);
    const auto choice = [&](KernelUse use) {
      return pin ? StrategyChoice{pinned(*pin, context(body, use))} : choose_strategy(context(body, use));
    };
    if (pin) kernel.pin = pin->strategy_loc, kernel.one_thread = pin->one_thread;
    if (kernel.one_thread && plan_.target.has_grid())
      planning_.diags.error("kernel-threads", pin->strategy_loc, "'threads' of kernel '{}' is for --target host",
                            kernel.name);
    if (is_called(k)) kernel.in_chunks = choice(KernelUse::InChunks).strategy;
    return is_launched(k) ? choice(KernelUse::Launched) : StrategyChoice{*kernel.in_chunks};
  }

  PlanDraft& planning_;
  Plan& plan_;
  const std::vector<KernelUses> uses_;
};

}  // namespace

void choose_kernels(PlanDraft& planning) { KernelChooser(planning).run(); }

}  // namespace weftc

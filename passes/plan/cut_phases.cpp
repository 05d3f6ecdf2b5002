// The step cut-phases of planning: forward, backward and update of a training become blocks, so that each is a function
// of the emitted program. All micro-batches are one block, whose loop leaves out the steps that are not forward when it
// evaluates. The sums of gradients over ranks that follow them belong to the update.
#include <algorithm>

#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

/// How many steps at the front there are of phases up to this one. Kernels that were joined may be of several.
size_t count_up_to(const std::vector<Step>& steps, Phase phase) {
  size_t count = steps.size();
  while (count > 0 && first_phase(steps[count - 1]) > phase) --count;
  return count;
}

bool has_backward(const std::vector<Step>& steps) {
  bool found = false;
  for_each_step(steps, [&](const Step& step) { found |= bodies_of(step).empty() && step.phase == Phase::Backward; });
  return found;
}

}  // namespace

void cut_phases(PlanDraft& planning) {
  Plan& plan = planning.plan;
  if (!plan.training || plan.has_stages) return;
  const Block whole = std::move(plan.blocks[0]);
  plan.blocks.clear(), plan.order.clear();
  const auto add = [&](const std::string& name, size_t from, size_t end) {
    if (from == end) return;
    Block& block = plan.blocks.emplace_back(Block{name, whole.place, {}});
    block.steps.assign(whole.steps.begin() + static_cast<long>(from), whole.steps.begin() + static_cast<long>(end));
    plan.order.push_back({static_cast<int>(plan.blocks.size()) - 1, 0});
  };
  const size_t forward = count_up_to(whole.steps, Phase::Forward);
  add("forward", 0, forward);
  Block& first = plan.blocks.front();
  const bool has_both = has_backward(first.steps);
  if (has_both) first.name = "forward_and_backward";
  for (Step& step : first.steps)
    if (auto* loop = std::get_if<ForStep>(&step.what); loop && has_both)
      loop->forward = count_up_to(loop->body, Phase::Forward);
  const size_t backward = has_both ? forward : std::max(forward, count_up_to(whole.steps, Phase::Backward));
  add("backward", forward, backward);
  add("update", backward, whole.steps.size());
}

}  // namespace weftc

#include "cli/training_memory.h"

#include <set>

#include "cli/json.h"
#include "cli/table.h"
#include "ir/plan_walk.h"

namespace weftc {

namespace {

/// The phases whose steps write and read each buffer.
struct Uses {
  std::vector<std::set<Phase>> writers, readers;

  explicit Uses(const Plan& plan) : writers(plan.buffers.size()), readers(plan.buffers.size()) {
    for (const Block& block : plan.blocks)
      for_each_step(block.steps, [&](const Step& step) {
        if (!bodies_of(step).empty()) return;
        for (const Access& access : step.accesses)
          (access.write ? writers : readers)[access.buffer.index].insert(step.phase);
      });
  }
};

int64_t& share_of(TrainingMemory& memory, const Plan& plan, const Uses& uses, const HeldMemory& held) {
  const auto any = [&](const auto& is_so) {
    for (const BufferId id : held.buffers)
      if (is_so(id)) return true;
    return false;
  };
  for (const StateSlot& state : plan.states)
    if (any([&](BufferId id) { return id == state.buffer || id == state.next; }))
      return state.initial ? memory.parameters : memory.optimizer;
  const auto passes = [&](Phase from, Phase to) {
    return any(
        [&](BufferId id) { return uses.writers[id.index].contains(from) && uses.readers[id.index].contains(to); });
  };
  if (passes(Phase::Backward, Phase::Update)) return memory.gradients;
  return passes(Phase::Forward, Phase::Backward) ? memory.activations : memory.others;
}

}  // namespace

TrainingMemory training_memory(const Plan& plan, const MemoryPeak& peak) {
  const Uses uses(plan);
  TrainingMemory memory;
  for (const HeldMemory& held : peak.held) share_of(memory, plan, uses, held) += held.bytes;
  return memory;
}

std::string TrainingMemory::text() const {
  return format("parameters {}, optimizer {}, gradients {}, kept for the backward pass {}, others {}",
                bytes_text(parameters), bytes_text(optimizer), bytes_text(gradients), bytes_text(activations),
                bytes_text(others));
}

std::string TrainingMemory::json() const {
  return json_object({{"parameters", std::to_string(parameters)},
                      {"optimizer", std::to_string(optimizer)},
                      {"gradients", std::to_string(gradients)},
                      {"activations", std::to_string(activations)},
                      {"others", std::to_string(others)}});
}

}  // namespace weftc

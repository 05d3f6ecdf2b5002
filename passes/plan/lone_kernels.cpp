// Copies each launch with its kernel, its buffers and its weights. The rows of planning that follow the choice of
// storages then order, place and pack them as in every Plan.
#include "passes/plan/lone_kernels.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "ir/base/check.h"
#include "passes/plan/planning.h"

namespace weftc {

namespace {

/// The first row that lone_plan does itself.
constexpr const char* kFirstRow = "place-weights";

/// The step that launches the kernel; null if no step outside of loops and branches does.
const Step* launch_of(const LoneKernel& lone) {
  for (const Block& block : lone.plan->blocks)
    for (const Step& step : block.steps)
      if (step.name == lone.step && std::holds_alternative<LaunchStep>(step.what)) return &step;
  return nullptr;
}

/// Gathers launches of several Plans in the draft of one.
class LoneDraft {
 public:
  LoneDraft(const Module& module, Plan plan, Diags& diags)
      : draft_{module, diags, pins_, std::move(plan), {}, {}, {}, {}, {}} {
    Plan& made = draft_.plan;
    made.kernels.clear(), made.buffers.clear(), made.weights.clear(), made.segments.clear(), made.transfers.clear();
    made.inputs.clear(), made.outputs.clear(), made.lengths.clear(), made.limits.clear(), made.demands.clear();
    made.states.clear(), made.generation.reset(), made.training.reset(), made.micro_batches = 1;
    made.blocks = {Block{"run", {}, {}}};
    made.order = {{0, 0}};
  }

  void add(const LoneKernel& lone) {
    const Step* from = launch_of(lone);
    WEFT_CHECK(from, "a kernel by itself is launched somewhere");
    const LaunchStep& launch = std::get<LaunchStep>(from->what);
    Plan& made = draft_.plan;
    const std::string name = lone_step_name(made.kernels.size());
    Kernel kernel = lone.plan->kernel(launch.kernel);
    kernel.name = unique_kernel_name(draft_, kernel.name);
    kernel.users = {name};
    made.blocks[0].place = kernel.place;
    Step step{name, 0, LaunchStep{{static_cast<uint32_t>(made.kernels.size())}, {}, {}}, {}, {}, {}, from->origins,
              "",   {}};
    made.kernels.push_back(std::move(kernel));
    for (const Operand& operand : launch.operands)
      std::get<LaunchStep>(step.what).operands.push_back(operand.buffer
                                                             ? Operand{buffer(*lone.plan, operand.buffer), {}}
                                                             : Operand{{}, weight(*lone.plan, operand.weight)});
    for (Access access : from->accesses) {
      access.buffer = buffer(*lone.plan, access.buffer);
      step.accesses.push_back(std::move(access));
    }
    made.blocks[0].steps.push_back(std::move(step));
  }

  Plan finish() {
    add_inputs();
    bool is_next = false;
    for (const PlanningStep& row : planning()) {
      is_next = is_next || std::strcmp(row.name, kFirstRow) == 0;
      if (is_next) row.run(draft_);
    }
    return std::move(draft_.plan);
  }

 private:
  /// Memory of the same value that lies alike is one: kernels to be compared read the same, and find as much of it in
  /// caches.
  BufferId buffer(const Plan& plan, BufferId id) {
    const Buffer& from = plan.buffer(id);
    const std::string key = std::to_string(id.index) + " " + from.name + " " + from.storage.text();
    const auto [at, fresh] = buffers_.emplace(key, BufferId{static_cast<uint32_t>(draft_.plan.buffers.size())});
    if (fresh) {
      Buffer own = from;
      own.name = "m" + std::to_string(draft_.plan.buffers.size());
      own.depth = 1, own.life = Life::Run, own.live.clear();
      draft_.plan.buffers.push_back(std::move(own));
    }
    return at->second;
  }

  WeightId weight(const Plan& plan, WeightId id) {
    const Weight& from = plan.weight(id);
    const std::string key = from.name + " " + from.storage.text();
    const auto [at, fresh] = weights_.emplace(key, WeightId{static_cast<uint32_t>(draft_.plan.weights.size())});
    if (fresh) draft_.plan.weights.push_back(from);
    return at->second;
  }

  /// Makes each buffer that a launch reads an input of the program, as a row of elements whatever its storage. Memory
  /// that nobody wrote would be a single page of zeros, which never misses the cache.
  void add_inputs() {
    Plan& made = draft_.plan;
    std::vector<bool> is_read(made.buffers.size(), false);
    for (const Step& step : made.blocks[0].steps)
      for (const Access& access : step.accesses)
        if (!access.write) is_read[access.buffer.index] = true;
    for (size_t b = 0; b < made.buffers.size(); ++b) {
      Buffer& buffer = made.buffers[b];
      if (!is_read[b]) continue;
      buffer.type = {buffer.type.dtype, shape_of({buffer.bytes / dtype_bytes(buffer.type.dtype)}), {}};
      buffer.storage = {};
      made.inputs.push_back({buffer.name, buffer.type, buffer.mesh, buffer.place, {static_cast<uint32_t>(b)}});
    }
  }

  const std::vector<KernelPin> pins_;
  PlanDraft draft_;
  std::map<std::string, BufferId> buffers_;
  std::map<std::string, WeightId> weights_;
};

}  // namespace

std::optional<Plan> plan_kernels(const Module& module, const Target& target, Diags& diags,
                                 const std::vector<KernelPin>& pins) {
  std::vector<PlanningReport> reports;
  return make_plan(module, target, diags, {{}, pins, kFirstRow}, reports);
}

std::string step_of_kernel(const Plan& plan, const std::string& kernel) {
  for (const Block& block : plan.blocks)
    for (const Step& step : block.steps) {
      const auto* launch = std::get_if<LaunchStep>(&step.what);
      if (launch && plan.kernel(launch->kernel).name == kernel) return step.name;
    }
  return "";
}

std::string lone_refusal(const LoneKernel& lone) {
  const Step* step = launch_of(lone);
  if (!step) return "it is launched in loops or branches only";
  const Plan& plan = *lone.plan;
  const LaunchStep& launch = std::get<LaunchStep>(step->what);
  const Kernel& kernel = plan.kernel(launch.kernel);
  if (kernel.category == Category::Collective) return "it meets other ranks";
  if (kernel.in_chunks || kernel.mesh.size() > plan.places[kernel.place.index].mesh.size())
    return "it is part of chunks";
  if (!launch.lengths.empty()) return "it has a run-time length";
  for (const Access& access : step->accesses) {
    if (!access.peers.empty() || !access.part.empty() || access.accumulate) return "it reaches memory of others";
    if (plan.buffer(access.buffer).type.dtype == DType::String) return "it reads strings";
  }
  return "";
}

Plan lone_plan(const Module& module, const std::vector<LoneKernel>& kernels, Diags& diags) {
  LoneDraft draft(module, *kernels.front().plan, diags);
  for (const LoneKernel& lone : kernels) draft.add(lone);
  return draft.finish();
}

std::string lone_step_name(size_t number) { return "lone_" + std::to_string(number); }

}  // namespace weftc

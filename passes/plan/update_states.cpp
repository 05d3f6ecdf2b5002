// The step update-states of planning: puts the next value of a state where the next iteration reads it.
//
//   m_next[i] = f(m[i], g[i])             in place: m_next lies where m does, nothing else happens
//   present = Concat(past, k)             in place, and only the rows of k are written
//   cache_next = ScatterND(cache, i, k)   in place, and only the updates are written
//   h_next = MatMul(h, w)                 every element reads all of h: a copy h_next -> h at the end of an iteration
//
// A state may be updated in place if every other read of the old value precedes the first write of the new one. Each
// kernel that reads the old value and writes the new one must do so element by element (ir/kernel/in_place.h).
#include <algorithm>
#include <map>
#include <set>

#include "ir/base/check.h"
#include "ir/kernel/in_place.h"
#include "passes/plan/live_ranges.h"
#include "passes/plan/plan_parts.h"
#include "passes/plan/update_loops.h"

namespace weftc {

namespace {

bool touches(const Step& step, BufferId buffer, bool write) {
  return std::any_of(step.accesses.begin(), step.accesses.end(),
                     [&](const Access& access) { return access.buffer == buffer && access.write == write; });
}

/// Steps that read the old value and write the new one.
std::vector<const Step*> updaters_of(const Plan& plan, const StateSlot& state) {
  std::vector<const Step*> found;
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      if (touches(step, state.buffer, false) && touches(step, state.next, true)) found.push_back(&step);
    });
  return found;
}

/// Parameters of a launched kernel that are bound to a buffer, in `from` .. `to`.
std::vector<size_t> parameters_of(const LaunchStep& launch, BufferId buffer, size_t from, size_t to) {
  std::vector<size_t> found;
  for (size_t f = from; f < to; ++f)
    if (launch.operands[f].buffer == buffer) found.push_back(f);
  return found;
}

/// The nodes that make the last value of the buffer.
std::vector<OriginId> makers_of(const Plan& plan, BufferId buffer) {
  std::vector<OriginId> makers;
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      if (touches(step, buffer, true)) makers = step.origins;
    });
  return makers;
}

Step copy_step(const Plan& plan, BufferId from, BufferId to, const std::string& name) {
  Step step;
  step.origins = makers_of(plan, from);
  step.name = name;
  step.what = CopyStep{from, to};
  step.accesses = {{from, false, {}, {}, false}, {to, true, {}, {}, false}};
  return step;
}

/// Decides on an unchanged Plan, then rewrites it.
class StateUpdater {
 public:
  explicit StateUpdater(PlanDraft& draft) : draft_(draft), plan_(draft.plan) {}

  void run() {
    in_place_ = update_loops(plan_);
    bind();
    if (!draft_.diags.ok()) return;
    const LiveRanges ranges(plan_);
    for (StateSlot& state : plan_.states) {
      if (!state.buffer) continue;
      state.why_copied = why_copied(ranges, state);
      state.in_place = state.why_copied.empty();
      if (state.in_place) in_place_.push_back({state.buffer, state.next});
    }
    write_new_elements_only();
    copy_the_others();
  }

 private:
  /// The buffers of each state. A state that the model does not read has no buffers.
  void bind() {
    const size_t states = plan_.states.size();
    for (size_t s = 0; s < states; ++s) {
      const Port* first = find_port(plan_.outputs, plan_.states[s].output);
      WEFT_CHECK(first, "state '" + plan_.states[s].input + "' has no output");
      for (const Port& in : plan_.inputs) {  // one in each place that reads it
        if (in.name != plan_.states[s].input) continue;
        const Port* out = output_at(plan_.states[s].output, in.place);
        if (!out) report_places(s, in, *first);
        bind_at(s, in, out ? *out : *first);
      }
    }
  }

  const Port* output_at(const std::string& name, PlaceId place) const {
    for (const Port& port : plan_.outputs)
      if (port.name == name && port.place == place) return &port;
    return nullptr;
  }

  /// Where a state is read in several places there is a slot for each.
  void bind_at(size_t number, const Port& in, const Port& out) {
    StateSlot slot = plan_.states[number];
    const bool is_first = !slot.buffer;
    slot.buffer = in.buffer, slot.next = out.buffer, slot.initial = {};
    if (const ConstantId first = draft_.module.states[number].initial)
      slot.initial = add_first_value(draft_, first, in);
    plan_.buffers[in.buffer.index].life = Life::State;
    if (is_first)
      plan_.states[number] = std::move(slot);
    else
      plan_.states.push_back(std::move(slot));
  }

  void report_places(size_t state, const Port& in, const Port& out) {
    draft_.diags.error(
        "state-places", draft_.module.states[state].loc,
        "'{}' is read on place '{}', but its next value '{}' is made on place '{}': a state stays on its "
        "ranks, so the nodes that read it and the node that makes its next value must be in stages of "
        "one place",
        in.name, plan_.places[in.place.index].name, out.name, plan_.places[out.place.index].name);
  }

  /// The buffer and all buffers at the same place, because a loop starts from them or makes its next value there.
  std::set<uint32_t> lying_together(BufferId buffer) const {
    std::set<uint32_t> together{buffer.index};
    for (size_t before = 0; before != together.size();) {
      before = together.size();
      for (const Block& block : plan_.blocks)
        for_each_step(block.steps, [&](const Step& step) {
          const auto* copy = std::get_if<CopyStep>(&step.what);
          if (!copy || !copy->in_place) return;
          if (together.contains(copy->from.index) || together.contains(copy->to.index))
            together.insert({copy->from.index, copy->to.index});
        });
    }
    return together;
  }

  /// "" where the state may be updated in place.
  std::string why_copied(const LiveRanges& ranges, const StateSlot& state) const {
    const std::vector<const Step*> updaters = updaters_of(plan_, state);
    const LiveRange reads = ranges.of(state.buffer.index, updaters);
    LiveRange writes;
    for (const uint32_t buffer : lying_together(state.next)) writes.add(ranges.of(buffer));
    if (is_made_forward(state.next))
      return format("'{}' is made beside what an evaluation computes, which changes no state", state.output);
    if (plan_.buffer(state.buffer).bytes != plan_.buffer(state.next).bytes) return "their buffers differ in size";
    if (is_input(state.next)) return format("'{}' is an input too", plan_.buffer(state.next).name);
    if (reads.used() && reads.last >= writes.first)
      return format("'{}' reads '{}' after '{}' has begun to write '{}'", ranges.name(reads.last), state.input,
                    ranges.name(writes.first), state.output);
    for (const Step* step : updaters)
      if (!is_by_element(plan_, *step, state.buffer, state.next))
        return format("'{}' reads other elements of '{}' than it writes of '{}'", step->name, state.input,
                      state.output);
    return "";
  }

  bool is_made_forward(BufferId buffer) const {
    bool found = false;
    for (const Block& block : plan_.blocks)
      for_each_step(block.steps, [&](const Step& step) {
        found |= plan_.training && step.phase == Phase::Forward && touches(step, buffer, true);
      });
    return found;
  }

  bool is_input(BufferId buffer) const {
    return std::any_of(plan_.inputs.begin(), plan_.inputs.end(), [&](const Port& p) { return p.buffer == buffer; });
  }

  /// How the kernel of an update in place is computed where some elements need not be touched at all.
  std::optional<Strategy> partial_strategy(const LaunchStep& launch, const InPlaceUpdate& update) const {
    const Kernel& kernel = plan_.kernel(launch.kernel);
    const size_t inputs = kernel.body.inputs().size();
    const std::vector<size_t> operands = parameters_of(launch, update.old, 0, inputs);
    if (operands.size() != 1 || parameters_of(launch, update.next, inputs, launch.operands.size()).empty()) return {};
    if (std::holds_alternative<Scatter>(kernel.strategy)) return Scatter{true};
    if (kernel.pin.kind != Loc::Kind::None) return {};
    const KernelBody body(kernel, plan_.places[kernel.place.index].mesh.size());
    const std::optional<size_t> axis = appended_axis(body, operands[0]);
    return axis ? std::optional<Strategy>(Append{operands[0], *axis}) : std::nullopt;
  }

  /// Launches of one kernel that update a state, or a loop's carried value, in place get a kernel that writes only the
  /// changes; others keep theirs.
  void write_new_elements_only() {
    std::map<uint32_t, std::vector<std::pair<LaunchStep*, Strategy>>> partial;
    std::map<uint32_t, size_t> launches;
    std::map<const LaunchStep*, std::string> names;
    for (Block& block : plan_.blocks)
      for_each_step(block.steps, [&](Step& step) {
        auto* launch = std::get_if<LaunchStep>(&step.what);
        if (!launch) return;
        ++launches[launch->kernel.index];
        names[launch] = step.name;
        for (const InPlaceUpdate& update : in_place_) {
          if (!touches(step, update.old, false) || !touches(step, update.next, true)) continue;
          if (std::optional<Strategy> strategy = partial_strategy(*launch, update))
            partial[launch->kernel.index].emplace_back(launch, std::move(*strategy));
        }
      });
    for (auto& [kernel, updates] : partial) {
      const bool all = updates.size() == launches[kernel];
      const KernelId id =
          all ? KernelId{kernel} : copy_kernel(draft_, KernelId{kernel}, in_place_name(plan_.kernels[kernel].name));
      plan_.kernels[id.index].strategy = updates[0].second;
      if (all) continue;
      for (auto& [launch, strategy] : updates) move_user(plan_, *launch, id, names[launch]);
    }
  }

  /// The copies of an iteration's end, by place.
  void copy_the_others() {
    std::map<uint32_t, std::vector<Step>> copies;
    std::set<uint32_t> written;
    const auto copy = [&](BufferId from, BufferId to) {
      if (!from || !to || from == to || !written.insert(to.index).second) return;
      plan_.buffers[to.index].life = Life::State;
      copies[plan_.buffer(to).place.index].push_back(copy_step(plan_, from, to, plan_.buffer(to).name + ".next"));
    };
    for (const StateSlot& state : plan_.states) {
      if (!state.buffer) continue;
      if (!state.in_place) copy(state.next, state.buffer);
    }
    for (auto& [place, steps] : copies) append_block(PlaceId{place}, std::move(steps));
  }

  /// Appends steps to the only block; in a pipeline, adds a block of its own after the last micro-batch.
  void append_block(PlaceId place, std::vector<Step> steps) {
    if (!draft_.module.pipeline) {
      std::move(steps.begin(), steps.end(), std::back_inserter(plan_.blocks[0].steps));
      return;
    }
    plan_.order.push_back({static_cast<int>(plan_.blocks.size()), plan_.micro_batches - 1});
    for (Step& step : steps) step.phase = Phase::Update;
    plan_.blocks.push_back(
        {"states_of_" + plan_.places[place.index].name, place, std::move(steps), Turn::After, Phase::Update});
  }

  PlanDraft& draft_;
  Plan& plan_;
  std::vector<InPlaceUpdate> in_place_;
};

}  // namespace

void update_states(PlanDraft& draft) { StateUpdater(draft).run(); }

}  // namespace weftc

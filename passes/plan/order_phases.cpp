// The step order-phases of planning: orders the steps of a training in three parts, none of which needs a later one.
//
//   forward    what the loss and other figures are computed from; a kernel that makes a derivative beside a figure
//   backward   what derivatives are computed from
//   update     the next parameters and states
//
// An evaluation is the first part alone. In a loop over micro-batches the body is in such parts. Each block of a
// pipeline is of one part, except for its sends, which belong to the part of the receiver.
#include <algorithm>
#include <map>
#include <set>

#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

class PhaseOrder {
 public:
  explicit PhaseOrder(Plan& plan) : plan_(plan) {}

  void order(std::vector<Step>& steps) {
    for (const Port& output : plan_.outputs)
      if (plan_.training->is_figure(output.name)) needed_.insert(output.buffer.index);
    mark(steps, Phase::Forward, [](const Step&) { return false; });
    needed_.clear();
    mark(steps, Phase::Backward, [&](const Step& step) { return is_of_derivatives(step); });
    sort(steps);
  }

 private:
  bool is_of_derivatives(const Step& step) const {
    return std::any_of(step.origins.begin(), step.origins.end(),
                       [&](OriginId origin) { return plan_.origins[origin.index].phase != Phase::Update; });
  }

  /// Gives the phase to steps without one that are asked for, and to steps that make their operands. Each value is made
  /// by one step, which precedes its readers.
  template <class IsAskedFor>
  void mark(std::vector<Step>& steps, Phase phase, const IsAskedFor& is_asked_for) {
    for (size_t i = steps.size(); i-- > 0;) {
      Step& step = steps[i];
      if (!bodies_of(step).empty()) {
        mark_around(step, phase, is_asked_for);
        continue;
      }
      if (step.phase != Phase::Update || !(is_asked_for(step) || makes_needed(step))) continue;
      step.phase = phase;
      need_operands(step);
    }
  }

  /// Micro-batches have steps of several phases; any other step that holds others is whole.
  template <class IsAskedFor>
  void mark_around(Step& step, Phase phase, const IsAskedFor& is_asked_for) {
    if (std::holds_alternative<ForStep>(step.what)) {
      for (std::vector<Step>* body : bodies_of(step)) mark(*body, phase, is_asked_for);
      if (first_phase(step) == phase)  // operands of any of its steps must exist before the first trip
        for (std::vector<Step>* body : bodies_of(step))
          for_each_step(*body, [&](const Step& inner) { need_operands(inner); });
      return;
    }
    bool is_wanted = false, is_free = true;
    const auto inside = [&](auto visit) {
      visit(step);
      for (std::vector<Step>* body : bodies_of(step)) for_each_step(*body, visit);
    };
    inside([&](Step& inner) {
      is_wanted |= is_asked_for(inner) || makes_needed(inner);
      is_free &= inner.phase == Phase::Update;
    });
    if (!is_wanted || !is_free) return;
    inside([&](Step& inner) {
      inner.phase = phase;
      need_operands(inner);
    });
  }

  bool makes_needed(const Step& step) const {
    return std::any_of(step.accesses.begin(), step.accesses.end(),
                       [&](const Access& access) { return access.write && needed_.contains(access.buffer.index); });
  }

  void need_operands(const Step& step) {
    for (const Access& access : step.accesses)
      if (!access.write) needed_.insert(access.buffer.index);
  }

  static void sort(std::vector<Step>& steps) {
    for (Step& step : steps)
      if (auto* loop = std::get_if<ForStep>(&step.what)) sort(loop->body);
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return first_phase(a) < first_phase(b); });
  }

  Plan& plan_;
  std::set<uint32_t> needed_;
};

}  // namespace

Phase first_phase(const Step& step) {
  Phase first = Phase::Update;
  const auto visit = [&](const Step& inner) { first = std::min(first, inner.phase); };
  visit(step);
  for (const std::vector<Step>* body : bodies_of(step)) for_each_step(*body, visit);
  return first;
}

void order_phases(PlanDraft& planning) {
  Plan& plan = planning.plan;
  if (!plan.training) return;
  if (!plan.has_stages) return PhaseOrder(plan).order(plan.blocks[0].steps);
  for (Block& block : plan.blocks) for_each_step(block.steps, [&](Step& step) { step.phase = block.phase; });
  std::map<int, Phase> received;  // by transfer
  const auto for_all = [&](auto visit) {
    for (Block& block : plan.blocks)
      for (Step& step : block.steps) visit(step);
  };
  for_all([&](Step& step) {
    if (const auto* recv = std::get_if<RecvStep>(&step.what)) received[recv->transfer] = step.phase;
  });
  for_all([&](Step& step) {
    if (const auto* send = std::get_if<SendStep>(&step.what)) step.phase = received.at(send->transfer);
  });
}

}  // namespace weftc

// Orders collectives that run beside other steps, on the stream "comm".
//
//   compute   dw2 . dx1 . dw1 . update 2 . update 1        a collective waits for the step that precedes it,
//                \       \     ^          ^                 and the first step that needs it for the collective
//   comm          sum 2   sum 1
//
// A collective whose operands are ready earlier is moved up to the step that waits for the collective before it. So the
// next parameter is gathered while the previous one is used, and not all at once.
#include <algorithm>

#include "passes/plan/plan_parts.h"
#include "passes/plan/signal_writer.h"

namespace weftc {

namespace {

/// The first later step of the compute stream that needs the one at `at`; `end` if no step before `end` does.
size_t first_reader(const std::vector<const Step*>& steps, size_t at, size_t end) {
  for (size_t reader = at + 1; reader < end; ++reader)
    if (!runs_beside(*steps[reader]) && touches_same(*steps[reader], *steps[at])) return reader;
  return end;
}

class BesideOrder {
 public:
  BesideOrder(Plan& plan, Block& block) : writer_(plan), plan_(plan), block_(block) {}

  void order() {
    std::vector<Step>& steps = block_.steps;
    if (std::none_of(steps.begin(), steps.end(), runs_beside)) return;
    bring_forward(steps);
    if (plan_.blocks.size() > 1) keep_ends(steps);
    const std::vector<size_t> joins = joins_of(pointers_to(steps));
    for (size_t s = 0; s < steps.size(); ++s)
      if (runs_beside(steps[s])) wait_for_operands(steps, s);
    for (size_t s = 0; s < steps.size(); ++s) {
      const bool is_last_before = next_beside(steps, s) == steps.size() || joins[next_beside(steps, s)] != joins[s];
      if (runs_beside(steps[s]) && joins[s] < steps.size() && is_last_before)
        join(first_leaf(steps[joins[s]]), steps[s]);
    }
  }

 private:
  /// A kernel that reaches into its peers' windows waits for the collectives of all of them.
  void join(Step& reader, Step& beside) {
    const std::vector<int> axes = barrier_axes(plan_, reader);
    reader.waits.push_back(
        {writer_.done_signal(beside, axes, 1), writer_.once(), 0, Wait::Reason::Data, !axes.empty()});
  }

  static size_t next_beside(const std::vector<Step>& steps, size_t at) {
    for (size_t next = at + 1; next < steps.size(); ++next)
      if (runs_beside(steps[next])) return next;
    return steps.size();
  }

  static void bring_forward(std::vector<Step>& steps) {
    size_t least = 0;  // where the step waits for the collective before this one
    for (size_t s = 0; s < steps.size(); ++s) {
      if (!runs_beside(steps[s])) continue;
      size_t to = s;
      // An evaluation leaves out all that is not forward, so such a step must not precede a forward one.
      const auto may_precede = [&](const Step& other) {
        return first_phase(other) >= steps[s].phase && !touches_same(other, steps[s]);
      };
      while (to > least && may_precede(steps[to - 1])) --to;
      std::rotate(steps.begin() + static_cast<long>(to), steps.begin() + static_cast<long>(s),
                  steps.begin() + static_cast<long>(s) + 1);
      least = first_reader(pointers_to(steps), to, steps.size());
    }
  }

  /// In a pipeline, a step that no step of the block waits for, or whose operands come from unknown steps, moves to the
  /// compute stream: other blocks know only that one.
  void keep_ends(std::vector<Step>& steps) {
    for (size_t s = 0; s < steps.size(); ++s) {
      int count = 1;
      if (runs_beside(steps[s]) &&
          (first_reader(pointers_to(steps), s, steps.size()) == steps.size() || !operand_maker(steps, s, count)))
        steps[s].stream = kComputeStream;
    }
  }

  /// The last step before it on the compute stream; null where it is not known.
  Step* operand_maker(std::vector<Step>& steps, size_t at, int& count) {
    Step* before = last_leaf(steps, at, kComputeStream, count);
    return before ? before : last_leaf_before(plan_, block_, kComputeStream, count);
  }

  /// Waits for the step that precedes it on the compute stream. If it is a kernel that reads windows of other ranks,
  /// waits for that step on all of its ranks.
  void wait_for_operands(std::vector<Step>& steps, size_t at) {
    const std::vector<int> axes = barrier_axes(plan_, steps[at]);
    int count = 1;
    if (Step* before = operand_maker(steps, at, count))
      steps[at].waits.push_back(
          {writer_.done_signal(*before, axes, count), writer_.once(), 0, Wait::Reason::Data, !axes.empty()});
    if (!axes.empty()) wait_for_meeting_before(steps, at, axes);
  }

  /// Waits until the previous step of its own stream is done on all ranks of `axes`, unless that step ends with a
  /// meeting of these ranks. A kernel that reaches into the windows of others needs this.
  void wait_for_meeting_before(std::vector<Step>& steps, size_t at, const std::vector<int>& axes) {
    size_t before = at;
    while (before > 0 && (!runs_beside(steps[before - 1]) || steps[before - 1].stream != steps[at].stream)) --before;
    if (before == 0 || is_meeting_of(plan_, steps[before - 1], axes)) return;
    const SignalId done = writer_.done_signal(steps[before - 1], axes, 1);
    steps[at].waits.push_back({done, writer_.once(), 0, Wait::Reason::Data, true});
  }

  SignalWriter writer_;
  Plan& plan_;
  Block& block_;
};

}  // namespace

bool runs_beside(const Step& step) {
  const bool is_meeting =
      std::holds_alternative<CollectiveStep>(step.what) || std::holds_alternative<LaunchStep>(step.what);
  return is_meeting && step.stream != kComputeStream;
}

bool touches_same(const Step& a, const Step& b) {
  bool found = conflict(a, b);
  for (const std::vector<Step>* body : bodies_of(a))
    for_each_step(*body, [&](const Step& inner) { found |= conflict(inner, b); });
  return found;
}

std::vector<const Step*> pointers_to(const std::vector<Step>& steps) {
  std::vector<const Step*> pointers;
  for (const Step& step : steps) pointers.push_back(&step);
  return pointers;
}

std::vector<size_t> joins_of(const std::vector<const Step*>& steps) {
  std::vector<size_t> joins(steps.size(), steps.size());
  size_t before = steps.size();  // one on the stream is done when a later one is
  for (size_t s = steps.size(); s-- > 0;) {
    if (!runs_beside(*steps[s])) continue;
    before = joins[s] = first_reader(steps, s, before);
  }
  return joins;
}

void order_beside(Plan& plan) {
  for (Block& block : plan.blocks) BesideOrder(plan, block).order();
}

}  // namespace weftc

// A Loop is written with copies: from the initial value to the carried one, and from the next value back to it at the
// end of each trip. Most of these copies can be avoided by placing two buffers together:
//
//   copy zeros to c                                               zeros and c_next lie where c does,
//   loop { c_next = f(c);  h = g(c_next);  copy c_next to c }     and nothing is copied
//
// Such a copy stays a step, by which the proof knows whose value the memory holds; no code is written for it. A copy
// moves elements where a step reads the old value after the new one is made. It also does where the kernel that makes
// the new value reads the old one at another element than it writes (ir/kernel/in_place.h).
#include "passes/plan/update_loops.h"

#include <algorithm>

#include "ir/kernel/in_place.h"
#include "ir/plan_walk.h"

namespace weftc {

namespace {

/// Whether a step, or one inside of it, reads or writes a buffer.
bool touches(const Step& step, BufferId buffer, bool write) {
  const auto own = [&](const Step& s) {
    return std::any_of(s.accesses.begin(), s.accesses.end(),
                       [&](const Access& access) { return access.buffer == buffer && access.write == write; });
  };
  bool found = own(step);
  for (const auto* body : bodies_of(step)) for_each_step(*body, [&](const Step& s) { found = found || own(s); });
  return found;
}

int users_of(const Plan& plan, BufferId buffer) {
  int count = 0;
  for (const Block& block : plan.blocks) count += users_in(block.steps, buffer);
  return count;
}

bool is_port(const Plan& plan, BufferId buffer) {
  const auto holds = [&](const auto& port) { return port.buffer == buffer; };
  return std::any_of(plan.inputs.begin(), plan.inputs.end(), holds) ||
         std::any_of(plan.outputs.begin(), plan.outputs.end(), holds) ||
         std::any_of(plan.lengths.begin(), plan.lengths.end(), holds);
}

/// Decides for one Plan.
class LoopUpdater {
 public:
  explicit LoopUpdater(Plan& plan) : plan_(plan) {}

  std::vector<InPlaceUpdate> run() {
    for (Block& block : plan_.blocks) visit(block.steps);
    return std::move(updates_);
  }

 private:
  /// Inner loops first: their carried values are buffers of the outer one.
  void visit(std::vector<Step>& steps) {
    for (Step& step : steps) {
      for (auto* body : bodies_of(step)) visit(*body);
      if (auto* loop = std::get_if<LoopStep>(&step.what)) mark_next_copies(loop->body);
    }
    mark_start_copies(steps);
  }

  /// Whether `made` could lie where `old` does: equal storage in one kind of memory, and `made` not seen from outside.
  bool are_alike(BufferId made, BufferId old) const {
    const Buffer &a = plan_.buffer(made), &b = plan_.buffer(old);
    return !(made == old) && a.bytes == b.bytes && a.depth == b.depth && a.window == b.window && a.life == b.life &&
           a.storage == b.storage && a.place == b.place && !is_port(plan_, made);
  }

  void mark_next_copies(std::vector<Step>& body) {
    for (size_t c = body.size(); c-- > 0;) {
      auto* copy = std::get_if<CopyStep>(&body[c].what);
      if (!copy || !is_carried(body, c, copy->to) || !may_take_place(body, c, *copy)) continue;
      copy->in_place = true;
      updates_.push_back({copy->to, copy->from});
    }
  }

  /// True if no step after the copy at `c` touches its target: it is the value of the next trip.
  static bool is_carried(const std::vector<Step>& body, size_t c, BufferId to) {
    for (size_t s = c + 1; s < body.size(); ++s)
      if (touches(body[s], to, true) || touches(body[s], to, false)) return false;
    return true;
  }

  /// True if `from` can lie where `to` does: every step that reads the old value precedes the steps that make the new
  /// one, or makes it element by element.
  bool may_take_place(const std::vector<Step>& body, size_t c, const CopyStep& copy) const {
    if (!are_alike(copy.from, copy.to) || users_in(body, copy.from) != users_of(plan_, copy.from)) return false;
    size_t first = body.size(), makers = 0;
    for (size_t s = 0; s < body.size(); ++s) {
      if (!touches(body[s], copy.from, true)) continue;
      first = std::min(first, s), ++makers;
    }
    if (first > c) return false;
    for (size_t s = first; s < body.size(); ++s) {
      if (s == c) continue;
      if (touches(body[s], copy.to, true)) return false;
      if (!touches(body[s], copy.to, false)) continue;
      if (s != first || makers != 1 || !is_by_element(plan_, body[s], copy.to, copy.from)) return false;
    }
    return !is_written_before(body, first, copy.to);
  }

  /// True if a step before `end` writes the buffer.
  static bool is_written_before(const std::vector<Step>& steps, size_t end, BufferId buffer) {
    for (size_t s = 0; s < end; ++s)
      if (touches(steps[s], buffer, true)) return true;
    return false;
  }

  /// Marks copies of a loop's initial values that no other step reads.
  void mark_start_copies(std::vector<Step>& steps) {
    for (size_t c = 0; c < steps.size(); ++c) {
      auto* copy = std::get_if<CopyStep>(&steps[c].what);
      const bool begins = copy && std::any_of(updates_.begin(), updates_.end(),
                                              [&](const InPlaceUpdate& update) { return update.old == copy->to; });
      if (begins && !copy->in_place && may_begin(steps, c, *copy)) copy->in_place = true;
    }
  }

  bool may_begin(const std::vector<Step>& steps, size_t c, const CopyStep& copy) const {
    int users = 0;
    for (size_t s = 0; s < c; ++s) {
      if (touches(steps[s], copy.from, false) || touches(steps[s], copy.to, false)) return false;
      users += touches(steps[s], copy.from, true);
    }
    return are_alike(copy.from, copy.to) && users + 1 == users_of(plan_, copy.from) &&
           !is_written_before(steps, c, copy.to);
  }

  Plan& plan_;
  std::vector<InPlaceUpdate> updates_;
};

}  // namespace

bool is_by_element(const Plan& plan, const Step& step, BufferId old, BufferId next) {
  const auto* launch = std::get_if<LaunchStep>(&step.what);
  if (!launch) return false;
  const Kernel& kernel = plan.kernel(launch->kernel);
  const KernelBody body(kernel, plan.places[kernel.place.index].mesh.size());
  const size_t inputs = kernel.body.inputs().size();
  for (size_t i = 0; i < inputs; ++i)
    for (size_t o = inputs; o < launch->operands.size(); ++o)
      if (launch->operands[i].buffer == old && launch->operands[o].buffer == next &&
          !updates_in_place(body, i, o - inputs))
        return false;
  return true;
}

std::vector<InPlaceUpdate> update_loops(Plan& plan) { return LoopUpdater(plan).run(); }

}  // namespace weftc

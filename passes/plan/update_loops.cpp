// A Loop is written with copies: what it starts from into the carried value, and what a trip makes of it back at the
// end of the trip. Most of them say only that two buffers are one:
//
//   copy zeros to c                                               fill c with zeros
//   loop { c_next = f(c);  h = g(c_next);  copy c_next to c }     loop { c = f(c);  h = g(c) }
//
// A copy stays where a step reads the old value behind the one that makes the new one, or where the kernel that makes
// it reads the old one elsewhere than at the element that it writes (ir/kernel/in_place.h).
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

/// How many steps touch a buffer.
int users_in(const std::vector<Step>& steps, BufferId buffer) {
  int count = 0;
  for_each_step(steps, [&](const Step& step) {
    count += std::any_of(step.accesses.begin(), step.accesses.end(),
                         [&](const Access& access) { return access.buffer == buffer; });
  });
  return count;
}

int users_of(const Plan& plan, BufferId buffer) {
  int count = 0;
  for (const Block& block : plan.blocks) count += users_in(block.steps, buffer);
  return count;
}

bool is_port(const Plan& plan, BufferId buffer) {
  const auto holds = [&](const Port& port) {
    return port.buffer == buffer || std::find(port.counts.begin(), port.counts.end(), buffer) != port.counts.end();
  };
  return std::any_of(plan.inputs.begin(), plan.inputs.end(), holds) ||
         std::any_of(plan.outputs.begin(), plan.outputs.end(), holds);
}

/// True if a launch reads of `old` only the elements that it writes of `next`, and writes each behind that.
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

/// Rewrites one Plan.
class LoopUpdater {
 public:
  explicit LoopUpdater(Plan& plan) : plan_(plan) {}

  std::vector<BufferId> run() {
    for (Block& block : plan_.blocks) visit(block.steps);
    return std::move(updated_);
  }

 private:
  /// Inner loops first: what they carry is a buffer of the outer one.
  void visit(std::vector<Step>& steps) {
    for (size_t s = 0; s < steps.size(); ++s) {
      for (auto* body : bodies_of(steps[s])) visit(*body);
      auto* loop = std::get_if<LoopStep>(&steps[s].what);
      if (!loop) continue;
      drop_next_copies(loop->body);
    }
    drop_start_copies(steps);
  }

  /// Buffers that one could take for the other: alike, in one kind of memory, and `gone` not seen from outside.
  bool are_alike(BufferId gone, BufferId stays) const {
    const Buffer &a = plan_.buffer(gone), &b = plan_.buffer(stays);
    return !(gone == stays) && a.bytes == b.bytes && a.depth == b.depth && a.window == b.window && a.life == b.life &&
           a.storage == b.storage && a.place == b.place && !is_port(plan_, gone);
  }

  void drop_next_copies(std::vector<Step>& body) {
    for (size_t c = body.size(); c-- > 0;) {
      const auto* copy = std::get_if<CopyStep>(&body[c].what);
      if (!copy || !is_carried(body, c, copy->to)) continue;
      const CopyStep edge = *copy;
      if (!may_take_place(body, c, edge)) continue;
      body.erase(body.begin() + static_cast<long>(c));
      replace(edge.from, edge.to);
      updated_.push_back(edge.to);
    }
  }

  /// True if nothing behind the copy at `c` touches its target: it is the value of the next trip.
  static bool is_carried(const std::vector<Step>& body, size_t c, BufferId to) {
    for (size_t s = c + 1; s < body.size(); ++s)
      if (touches(body[s], to, true) || touches(body[s], to, false)) return false;
    return true;
  }

  /// True if `from` can lie where `to` does: every step that reads the old value is in front of those that make the new
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

  /// True if a step in front of `end` writes the buffer.
  static bool is_written_before(const std::vector<Step>& body, size_t end, BufferId buffer) {
    for (size_t s = 0; s < end; ++s)
      if (touches(body[s], buffer, true)) return true;
    return false;
  }

  /// Copies to what a loop carries, of values that nobody else reads.
  void drop_start_copies(std::vector<Step>& steps) {
    for (size_t c = steps.size(); c-- > 0;) {
      const auto* copy = std::get_if<CopyStep>(&steps[c].what);
      if (!copy || std::find(updated_.begin(), updated_.end(), copy->to) == updated_.end()) continue;
      const CopyStep edge = *copy;
      const std::vector<Step> before(steps.begin(), steps.begin() + static_cast<long>(c) + 1);
      if (!are_alike(edge.from, edge.to) || users_in(before, edge.from) != users_of(plan_, edge.from) ||
          is_written_before(before, c, edge.to))
        continue;
      bool is_read = false;
      for (size_t s = 0; s < c; ++s)
        is_read = is_read || touches(steps[s], edge.from, false) || touches(steps[s], edge.to, false);
      if (is_read) continue;
      steps.erase(steps.begin() + static_cast<long>(c));
      replace(edge.from, edge.to);
    }
  }

  /// All steps use `to` where they used `from`.
  void replace(BufferId from, BufferId to) {
    const auto put = [&](BufferId& buffer) {
      if (buffer == from) buffer = to;
    };
    for (Block& block : plan_.blocks)
      for_each_step(block.steps, [&](Step& step) {
        for (Access& access : step.accesses) put(access.buffer);
        replace_in(step, put);
      });
  }
  template <class Put>
  static void replace_in(Step& step, const Put& put) {
    if (auto* launch = std::get_if<LaunchStep>(&step.what)) {
      for (Operand& operand : launch->operands) put(operand.buffer);
      for (Operand& extent : launch->extents) put(extent.buffer);
    } else if (auto* copy = std::get_if<CopyStep>(&step.what)) {
      put(copy->from), put(copy->to);
    } else if (auto* collective = std::get_if<CollectiveStep>(&step.what)) {
      put(collective->from), put(collective->to);
    } else if (auto* branch = std::get_if<IfStep>(&step.what)) {
      put(branch->condition);
    } else if (auto* loop = std::get_if<LoopStep>(&step.what)) {
      put(loop->trip_count), put(loop->condition), put(loop->iteration);
      for (BufferId& carried : loop->carried) put(carried);
    }
  }

  Plan& plan_;
  std::vector<BufferId> updated_;
};

}  // namespace

std::vector<BufferId> update_loops(Plan& plan) { return LoopUpdater(plan).run(); }

}  // namespace weftc

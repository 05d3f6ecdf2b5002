// Positions of buffers: memory is reused where live ranges (live_ranges.h) do not meet. Inputs, outputs and states do
// not share memory, except for a state that is updated in place (update_states.cpp). States come first, so that those
// of equal size lie at the same place in the plans of all variants (merge_variants.h).
#include <algorithm>

#include "ir/base/check.h"
#include "passes/plan/live_ranges.h"
#include "passes/plan/plan_parts.h"
#include "passes/plan/update_loops.h"

namespace weftc {

namespace {

class BufferPlanner {
 public:
  explicit BufferPlanner(PlanDraft& planning)
      : plan_(planning.plan),
        ranges_(planning.plan),
        same_as_(plan_.buffers.size()),
        range_(plan_.buffers.size()),
        state_(plan_.buffers.size(), plan_.states.size()) {
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      range_[b] = ranges_.in_memory(b), same_as_[b] = static_cast<int>(b);
      if (range_[b].used()) plan_.buffers[b].live = ranges_.text(range_[b]);
    }
  }

  void run() {
    for (const StateSlot& state : plan_.states)
      if (state.in_place) join(static_cast<int>(state.next.index), static_cast<int>(state.buffer.index));
    for (const Block& block : plan_.blocks) {
      join_reductions(block.steps, false);
      for_each_step(block.steps, [&](const Step& step) {
        const auto* copy = std::get_if<CopyStep>(&step.what);
        if (copy && copy->in_place) join(static_cast<int>(copy->from.index), static_cast<int>(copy->to.index));
      });
    }
    for (size_t s = 0; s < plan_.states.size(); ++s)
      if (const BufferId buffer = plan_.states[s].buffer) state_[root(static_cast<int>(buffer.index))] = s;
    for (Program& program : plan_.programs) {
      program.positions.assign(plan_.buffers.size(), {});
      program.own_bytes = place(program, false);
      program.window_bytes = place(program, true);
      for (const Block& block : plan_.blocks) place_blocks(program, block.steps);
    }
  }

 private:
  /// Places the buffers of each block of rows in memory of the thread. A thread runs one chain at a time, so chains
  /// share it.
  void place_blocks(Program& program, const std::vector<Step>& steps) {
    for_each_step(steps, [&](const Step& step) {
      const auto* loop = std::get_if<LoopStep>(&step.what);
      if (!loop || !loop->is_chain()) return;
      program.thread_bytes = std::max(program.thread_bytes, place_chain(program, *loop) + kept_bytes(plan_, *loop));
    });
  }

  /// Places the results of a chain's kernels, in their order. A result replaces a buffer of the same size that is no
  /// longer read, or that the kernel reads element by element as it writes; else it goes after all others. Returns the
  /// bytes of all.
  int64_t place_chain(Program& program, const LoopStep& chain) const {
    std::vector<BufferId> held;  // the buffer that lies at each place now
    int64_t end = 0;
    for (const Step& step : chain.body)
      for (const Access& access : step.accesses) {
        const BufferId own = access.buffer;
        const bool is_first =
            chain.rows->own.contains(own) && program.positions[own.index].kind == Position::Kind::Absent;
        if (!is_first || !holds(plan_, program, plan_.buffer(own).place)) continue;
        const auto dead = std::find_if(held.begin(), held.end(),
                                       [&](BufferId other) { return may_replace(chain, step, other, own); });
        Position& position = program.positions[own.index];
        if (dead != held.end()) {
          position = {Position::Kind::OfThread, *dead, program.positions[dead->index].offset};
          *dead = own;
          continue;
        }
        position = {Position::Kind::OfThread, {}, program.own_bytes + end};
        end += plan_.buffer(own).bytes;
        held.push_back(own);
      }
    return end;
  }

  /// Whether `next`, which `step` is the first to write, may lie where `old` does: no later step reads `old`.
  bool may_replace(const LoopStep& chain, const Step& step, BufferId old, BufferId next) const {
    if (plan_.buffer(old).bytes != plan_.buffer(next).bytes) return false;
    const auto reads = [&](const Step& reader) {
      return std::any_of(reader.accesses.begin(), reader.accesses.end(),
                         [&](const Access& access) { return access.buffer == old; });
    };
    const auto at = std::find_if(chain.body.begin(), chain.body.end(), [&](const Step& s) { return &s == &step; });
    return std::none_of(at + 1, chain.body.end(), reads) && (!reads(step) || is_by_element(plan_, step, old, next));
  }

  int root(int b) const {
    while (same_as_[b] != b) b = same_as_[b];
    return b;
  }
  int64_t bytes(int b) const { return plan_.buffers[b].bytes * plan_.buffers[b].depth; }

  void join(int b, int with) {
    const bool window = plan_.buffers[b].window || plan_.buffers[with].window;
    plan_.buffers[b].window = plan_.buffers[with].window = window;
    same_as_[root(b)] = root(with);
    range_[root(with)].add(range_[b]);
  }

  /// An all-reduce may be in place, if nothing reads the partial sums afterwards.
  void join_reductions(const std::vector<Step>& steps, bool overlapped) {
    for (const Step& step : steps) {
      for (const auto* body : bodies_of(step))
        join_reductions(*body, overlapped || std::any_of(body->begin(), body->end(), [&](const Step& s) {
                                 return s.stream != body->front().stream;
                               }));
      const auto* what = std::get_if<CollectiveStep>(&step.what);
      if (!what || what->kind != OpKind::AllReduce || overlapped) continue;
      const int from = static_cast<int>(what->from.index), to = static_cast<int>(what->to.index);
      const bool dies_here = range_[from].last == range_[to].first;
      if (!dies_here || root(from) == root(to) || root(to) != to || bytes(from) != bytes(to) || is_port(what->from))
        continue;
      join(to, from);
    }
  }

  bool is_port(BufferId id) const {
    const auto holds = [&](const Port& port) {
      return root(static_cast<int>(port.buffer.index)) == root(static_cast<int>(id.index));
    };
    return std::any_of(plan_.inputs.begin(), plan_.inputs.end(), holds) ||
           std::any_of(plan_.outputs.begin(), plan_.outputs.end(), holds);
  }

  /// Places states, then the other buffers of one memory in the order of their first steps, each in the smallest gap
  /// that holds it. Windows have one position in all programs, so that all are placed in each.
  int64_t place(Program& program, bool window) {
    std::vector<int> order;
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      if (!range_[root(static_cast<int>(b))].used() || buffer.window != window || buffer.life == Life::Block) continue;
      if (root(static_cast<int>(b)) == static_cast<int>(b) && (window || holds(plan_, program, buffer.place)))
        order.push_back(static_cast<int>(b));
    }
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) {
      return std::pair(state_[x], range_[x].first) < std::pair(state_[y], range_[y].first);
    });
    int64_t end = 0;
    std::vector<int> live, dead;
    for (int b : order) {
      for (size_t i = 0; i < live.size();) {
        if (range_[live[i]].last >= range_[b].first) {
          ++i;
          continue;
        }
        dead.push_back(live[i]);
        live.erase(live.begin() + static_cast<long>(i));
      }
      Position& position = program.positions[b];
      position = find_gap(program, live, bytes(b));
      for (int d : dead)
        if (program.positions[d].offset == position.offset && bytes(d) == bytes(b)) {
          position.kind = Position::Kind::SameAs;
          position.of = {static_cast<uint32_t>(d)};
          break;
        }
      end = std::max(end, position.offset + bytes(b));
      const auto at = std::upper_bound(live.begin(), live.end(), b, [&](int x, int y) {
        return program.positions[x].offset < program.positions[y].offset;
      });
      live.insert(at, b);
    }
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      const int r = root(static_cast<int>(b));
      if (r == static_cast<int>(b) || program.positions[r].kind == Position::Kind::Absent) continue;
      if (plan_.buffers[b].window == window)
        program.positions[b] = {Position::Kind::SameAs, {static_cast<uint32_t>(r)}, program.positions[r].offset};
    }
    return end;
  }

  /// `live` is sorted by offset.
  Position find_gap(const Program& program, const std::vector<int>& live, int64_t size) const {
    Position best{Position::Kind::Start, {}, 0};
    int64_t best_gap = INT64_MAX, at = 0;
    Position here{Position::Kind::Start, {}, 0};
    for (int b : live) {
      const int64_t gap = program.positions[b].offset - at;
      if (gap >= size && gap < best_gap) best_gap = gap, best = here;
      at = program.positions[b].offset + bytes(b);
      here = {Position::Kind::EndOf, {static_cast<uint32_t>(b)}, at};
    }
    return best_gap == INT64_MAX ? here : best;
  }

  Plan& plan_;
  LiveRanges ranges_;
  std::vector<int> same_as_;
  std::vector<LiveRange> range_;
  // The number of the state in a buffer; for other buffers, the number of states.
  std::vector<size_t> state_;
};

}  // namespace

void place_buffers(PlanDraft& planning) { BufferPlanner(planning).run(); }

}  // namespace weftc

// Positions of buffers: live ranges over the order of steps, memory reused where they do not meet.
//   A buffer's range spans its accesses; a loop that it outlives counts as one step (inputs and outputs outlive all).
//   In loops on several streams chunks overlap, and so they do where a step touches the memory of other ranks, which
//   are not in the same chunk: what belongs to such a loop is live all through it. Inputs, outputs and states do not
//   share memory.
#include <algorithm>
#include <set>

#include "ir/base/check.h"
#include "passes/plan/plan_events.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

struct Range {
  int first = INT32_MAX, last = -1;
  bool used() const { return last >= 0; }
  void add(int from, int to) { first = std::min(first, from), last = std::max(last, to); }
  void add(const Range& other) { add(other.first, other.last); }
};

/// A loop or branch in the order of steps.
struct Nest {
  int parent;  // -1: none
  Range range;
  bool overlaps = false;  // chunks do
};

struct Use {
  int at, nest;
  size_t block;
  int stream;
};

class Ranges {
 public:
  explicit Ranges(const Plan& plan) : plan_(plan), uses_(plan.buffers.size()), is_port_(plan.buffers.size()) {
    for (const auto* ports : {&plan.inputs, &plan.outputs})
      for (const Port& port : *ports) {
        is_port_[port.buffer.index] = true;
        for (BufferId count : port.counts)
          if (count) is_port_[count.index] = true;
      }
    names_.push_back("input");
    for (block_ = 0; block_ < plan.blocks.size(); ++block_) walk(plan.blocks[block_].steps, -1);
    names_.push_back("output");
  }

  /// Position of the step behind the last one.
  int end() const { return static_cast<int>(names_.size()) - 1; }

  Range of(size_t buffer) const {
    Range range;
    const std::vector<Use>& uses = uses_[buffer];
    if (uses.empty()) return range;
    // What all micro-batches write parts of lives while the blocks run again and again.
    if (plan_.micro_batches > 1 && plan_.buffers[buffer].life == Life::Run) range.add(1, end() - 1);
    for (const Use& use : uses)  // blocks follow one another in an order of their own
      if (use.block != uses[0].block || (plan_.blocks.size() > 1 && use.stream)) range.add(1, end() - 1);
    if (range.used()) return range;
    int home = is_port_[buffer] ? -1 : uses[0].nest;
    for (const Use& use : uses) home = common(home, use.nest);
    for (const Use& use : uses) {
      const int child = child_of(home, use.nest);
      if (child >= 0)
        range.add(nests_[child].range);
      else
        range.add(use.at, use.at);
    }
    for (int nest = home; nest >= 0; nest = nests_[nest].parent)
      if (nests_[nest].overlaps) range.add(nests_[nest].range);
    return range;
  }
  std::string text(const Range& range) const { return names_[range.first] + " .. " + names_[range.last]; }

 private:
  void walk(const std::vector<Step>& steps, int nest) {
    for (const Step& step : steps) {
      const int at = static_cast<int>(names_.size());
      names_.push_back(step.name);
      for (const Access& access : step.accesses) uses_[access.buffer.index].push_back({at, nest, block_, step.stream});
      const auto bodies = bodies_of(step);
      if (bodies.empty()) continue;
      const int own = static_cast<int>(nests_.size());
      nests_.push_back({nest, {}, false});
      if (std::holds_alternative<LoopStep>(step.what))  // its condition and count are read again before each trip
        for (const Access& access : step.accesses) uses_[access.buffer.index].push_back({at, own, block_, step.stream});
      std::set<int> streams;
      bool meets_ranks = false;
      for (const auto* body : bodies) {
        walk(*body, own);
        for (const Step& inner : *body) {
          streams.insert(inner.stream);
          meets_ranks |= !barrier_axes(plan_, inner).empty();
        }
      }
      nests_[own].range.add(at, static_cast<int>(names_.size()) - 1);
      nests_[own].overlaps = streams.size() > 1 || meets_ranks;
    }
  }
  int common(int a, int b) const {
    std::set<int> above{-1};
    for (; a >= 0; a = nests_[a].parent) above.insert(a);
    while (!above.contains(b)) b = nests_[b].parent;
    return b;
  }
  /// The nest right inside `home` that holds `nest`; -1 if they are equal.
  int child_of(int home, int nest) const {
    int child = -1;
    for (; nest != home; nest = nests_[nest].parent) child = nest;
    return child;
  }

  const Plan& plan_;
  std::vector<std::string> names_;
  std::vector<Nest> nests_;
  std::vector<std::vector<Use>> uses_;
  std::vector<bool> is_port_;
  size_t block_ = 0;
};

class BufferPlanner {
 public:
  explicit BufferPlanner(PlanDraft& planning)
      : plan_(planning.plan), ranges_(planning.plan), same_as_(plan_.buffers.size()), range_(plan_.buffers.size()) {
    for (size_t b = 0; b < plan_.buffers.size(); ++b) range_[b] = ranges_.of(b), same_as_[b] = static_cast<int>(b);
    extend_ports();
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      if (range_[b].used()) plan_.buffers[b].live = ranges_.text(range_[b]);
  }

  void run() {
    join_states(plan_.states);
    for (const Block& block : plan_.blocks) join_reductions(block.steps, false);
    for (Program& program : plan_.programs) {
      program.positions.assign(plan_.buffers.size(), {});
      program.own_bytes = place(program, false);
      program.window_bytes = place(program, true);
    }
  }

 private:
  int root(int b) const {
    while (same_as_[b] != b) b = same_as_[b];
    return b;
  }
  int64_t bytes(int b) const { return plan_.buffers[b].bytes * plan_.buffers[b].depth; }

  void extend_ports() {
    for (const Port& port : plan_.inputs) {
      range_[port.buffer.index].add(0, ranges_.end());
      for (BufferId count : port.counts)
        if (count) range_[count.index].add(0, ranges_.end());
    }
    for (const Port& port : plan_.outputs) {
      range_[port.buffer.index].add(ranges_.end(), ranges_.end());
      for (BufferId count : port.counts)
        if (count) range_[count.index].add(ranges_.end(), ranges_.end());
    }
  }

  const Port* find_port(const std::vector<Port>& ports, const std::string& name) const {
    for (const Port& port : ports)
      if (port.name == name) return &port;
    return nullptr;
  }

  /// A state is updated in place if every read of the old value precedes the write of the new one.
  void join_states(std::vector<StateSlot>& states) {
    std::set<uint32_t> taken;
    for (StateSlot& state : states) {
      const Port *in = find_port(plan_.inputs, state.input), *out = find_port(plan_.outputs, state.output);
      if (!in || !out) continue;
      state.buffer = in->buffer;
      Buffer &from = plan_.buffers[in->buffer.index], &to = plan_.buffers[out->buffer.index];
      from.life = Life::State;
      const bool shared =
          std::any_of(plan_.inputs.begin(), plan_.inputs.end(), [&](const Port& p) { return p.buffer == out->buffer; });
      if (shared || !taken.insert(out->buffer.index).second || from.bytes != to.bytes) continue;
      if (ranges_.of(in->buffer.index).last >= range_[out->buffer.index].first) continue;
      join(static_cast<int>(out->buffer.index), static_cast<int>(in->buffer.index));
    }
  }

  void join(int b, int with) {
    const bool window = plan_.buffers[b].window || plan_.buffers[with].window;
    plan_.buffers[b].window = plan_.buffers[with].window = window;
    same_as_[root(b)] = root(with);
    range_[root(with)].add(range_[b]);
  }

  /// An all-reduce may write where it reads, if nobody reads the partial sums afterwards.
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

  /// Places the buffers of one memory in the order of their first steps, each in the smallest gap that holds it.
  /// Windows have one position in all programs, so that all are placed in each.
  int64_t place(Program& program, bool window) {
    std::vector<int> order;
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      if (!range_[root(static_cast<int>(b))].used() || buffer.window != window) continue;
      if (root(static_cast<int>(b)) == static_cast<int>(b) && (window || holds(plan_, program, buffer.place)))
        order.push_back(static_cast<int>(b));
    }
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return range_[x].first < range_[y].first; });
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
  Ranges ranges_;
  std::vector<int> same_as_;
  std::vector<Range> range_;
};

}  // namespace

void place_buffers(PlanDraft& planning) { BufferPlanner(planning).run(); }

}  // namespace weftc

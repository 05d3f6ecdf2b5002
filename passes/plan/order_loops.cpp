// Orders the steps of loops over chunks, and kernels that reach into the windows of their peers.
//
// Streams of a loop. Steps that exchange data run on the stream "comm", the others on "compute". A signal orders two
// steps of different streams that touch the same buffer (-->). A buffer that both streams touch has two instances; the
// writer of chunk c's instance waits for the readers of chunk c - 2 (- ->). Around the loop the streams fork and join,
// so that its neighbours see the order of one stream:
//
//   compute  before | mm 0 . mm 1 . mm 2 . mm 3 |        after       mm 2 waits for sum 0: both use instance 0
//                 \    |      |      |      |           /
//                  \   v      v      v      v          /
//   comm            -> sum 0  sum 1  sum 2  sum 3 -----
//
// Depth of buffers. Two instances suffice, because each stream lags the other by at most one chunk; a buffer that
// outlives the loop keeps one instance and is written in parts.
//
// Peer kernels. A kernel that reads the windows of its peers waits inside for a signal that all these ranks raise, so
// that on every rank all that precedes the signal is done. It ends with a barrier of its ranks: the windows that it
// read may be overwritten afterwards.
//
//   rank 0   produce --+--> |wait for ready of 0, 1| read both windows |barrier| overwrite
//   rank 1   produce --+--> |wait for ready of 0, 1| read both windows |barrier| overwrite
//
// In a pipeline, the first step of a block has no step before it that could raise the signal: which block ran before
// depends on the micro-batch, and an evaluation leaves blocks out. An empty step at the block's begin raises it then.
//
// With mechanism signal a loop is ordered alike, but the computing steps are one kernel that signals and waits inside.
// With mechanism fused the whole loop is one kernel on one stream, in which one chunk follows another.
#include <algorithm>
#include <map>

#include "ir/text/plan_text.h"
#include "passes/plan/plan_parts.h"
#include "passes/plan/signal_writer.h"

namespace weftc {

namespace {

/// True for a step that holds no others.
bool is_leaf(const Step& step) { return bodies_of(step).empty(); }

/// True for a message, which has a stream of its own.
bool is_transfer(const Step& step) {
  return std::holds_alternative<SendStep>(step.what) || std::holds_alternative<RecvStep>(step.what);
}

/// True for a copy that adds a chunk's part to a total.
bool accumulates(const Step& step) {
  return std::holds_alternative<CopyStep>(step.what) &&
         std::any_of(step.accesses.begin(), step.accesses.end(), [](const Access& a) { return a.accumulate; });
}

/// True if the steps touch other elements in each chunk.
bool apart_in_time(const Step& a, const Step& b) {
  for (const Access& x : a.accesses)
    for (const Access& y : b.accesses)
      if (conflict(x, y) && (x.part.empty() || x.part != y.part)) return false;
  return true;
}

class LoopOrder {
 public:
  LoopOrder(Plan& plan, Block& block) : plan_(plan), block_(block), writer_(plan) {}

  void order() {
    add_begin();
    order(block_.steps);
  }

 private:
  void order(std::vector<Step>& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      Step& step = steps[i];
      if (auto* loop = std::get_if<ForStep>(&step.what)) {
        order_loop(steps, i, *loop);
        continue;
      }
      for (std::vector<Step>* body : bodies_of(step)) order(*body);
      if (step.stream != kComputeStream) continue;  // order_beside has seen to it
      const std::vector<int> axes = barrier_axes(plan_, step);
      if (!axes.empty()) wait_for_last(steps, i, step.stream, step, axes, true);
    }
  }

  /// True for a kernel that reaches into the windows of its peers, and for a step that holds one.
  bool has_peer_kernel(const Step& step) const {
    const auto has_one = [&](const auto* body) {
      return std::ranges::any_of(*body, [&](const Step& inner) { return has_peer_kernel(inner); });
    };
    return !barrier_axes(plan_, step).empty() || std::ranges::any_of(bodies_of(step), has_one);
  }

  /// Adds an empty step to a block of a pipeline that would begin with a kernel over windows: the step that its peers
  /// wait for.
  void add_begin() {
    std::vector<Step>& steps = block_.steps;
    const auto first = std::ranges::find_if(
        steps, [&](const Step& step) { return step.stream == kComputeStream && !is_transfer(step); });
    if (plan_.blocks.size() == 1 || first == steps.end() || !has_peer_kernel(*first)) return;
    int count = 1;
    if (last_leaf_before(plan_, block_, kComputeStream, count)) return;
    Step begin;
    begin.name = first->name + ".begin";
    begin.what = CopyStep{buffer_of(*first), buffer_of(*first), true};
    begin.origins = first->origins;
    begin.phase = first->phase;
    steps.insert(first, std::move(begin));
  }

  /// A buffer that the step, or one inside, touches.
  static BufferId buffer_of(const Step& step) {
    if (!step.accesses.empty()) return step.accesses[0].buffer;
    for (const auto* body : bodies_of(step))
      for (const Step& inner : *body)
        if (const BufferId found = buffer_of(inner)) return found;
    return {};
  }

  /// A step of the loop's body that another one must not overtake.
  struct Target {
    int step;
    int lag;
    Wait::Reason reason;
  };

  void wait(Step& step, SignalId signal, Per per, int lag, Wait::Reason reason, bool in_kernel) {
    step.waits.push_back({signal, per, lag, reason, in_kernel});
  }

  /// `waiter` waits for the last step on `stream` that precedes steps[at], on the ranks of `axes`.
  void wait_for_last(std::vector<Step>& steps, size_t at, int stream, Step& waiter, const std::vector<int>& axes,
                     bool in_kernel) {
    int count = 1;
    Step* before = last_leaf(steps, at, stream, count);
    if (!before && &steps == &block_.steps) before = last_leaf_before(plan_, block_, stream, count);
    if (before)
      wait(waiter, writer_.done_signal(*before, block_.place, axes, count), writer_.once(), 0, Wait::Reason::Data,
           in_kernel);
  }

  void order_loop(std::vector<Step>& steps, size_t at, ForStep& loop) {
    std::vector<Step>& body = loop.body;
    for (size_t i = 0; i < body.size(); ++i)
      if (auto* nested = std::get_if<ForStep>(&body[i].what)) order_loop(body, i, *nested);
    const bool overlaps = forks(steps, at, loop);
    if (overlaps) {
      const int comm = writer_.stream("comm");
      for (Step& s : body) s.stream = meets_ranks(plan_, s) ? comm : kComputeStream;
      deepen_buffers(body);
      for (size_t w = 0; w < body.size(); ++w) wait_in_loop(body, w, loop.trips);
    }
    for (size_t w = 0; w < body.size(); ++w) wait_for_peers(steps, at, body, w, loop.trips);
    if (overlaps) fork_and_join(steps, at, loop);
  }

  /// True if the loop can overlap: it has several chunks of single steps, some of which exchange data and some compute.
  bool runs_on_two_streams(const ForStep& loop) const {
    const auto meets = [&](const Step& s) { return meets_ranks(plan_, s); };
    const std::vector<Step>& body = loop.body;
    return loop.mechanism != Mechanism::Fused && !loop.in_turn && loop.trips > 1 &&
           std::all_of(body.begin(), body.end(), is_leaf) && std::any_of(body.begin(), body.end(), meets) &&
           !std::all_of(body.begin(), body.end(), meets);
  }

  /// True if the loop runs on two streams. In a pipeline, other blocks know of the compute stream alone: there one that
  /// begins or ends a block runs in turn.
  bool forks(std::vector<Step>& steps, size_t at, const ForStep& loop) {
    if (!runs_on_two_streams(loop)) return false;
    if (plan_.blocks.size() == 1 || &steps != &block_.steps) return true;
    int count = 1;
    return last_leaf(steps, at, kComputeStream, count) && first_on_compute(steps, at + 1);
  }

  /// Gives two instances to the buffers that steps of both streams use and only this loop knows.
  void deepen_buffers(const std::vector<Step>& body) {
    struct Use {
      int first_stream;
      bool several = false;
    };
    std::map<BufferId, Use> uses;
    for (const Step& step : body)
      for (const Access& access : step.accesses) {
        const auto [at, fresh] = uses.emplace(access.buffer, Use{step.stream});
        at->second.several |= at->second.first_stream != step.stream;
      }
    for (const auto& [id, use] : uses)
      if (use.several && plan_.buffer(id).life == Life::Chunk) plan_.buffers[id.index].depth = kInstances;
  }

  /// Steps of other streams that body[w] must not overtake: for each stream and lag the last one.
  std::vector<Target> targets_of(const std::vector<Step>& body, size_t w) const {
    std::map<std::pair<int, int>, Target> last;
    for (size_t t = 0; t < body.size(); ++t) {
      BufferId buffer;
      if (body[t].stream == body[w].stream || !conflict(body[w], body[t], &buffer)) continue;
      if (t > w && apart_in_time(body[w], body[t])) continue;
      const int lag = t > w ? plan_.buffer(buffer).depth : 0;
      last[{body[t].stream, lag}] = {static_cast<int>(t), lag, lag ? Wait::Reason::Reuse : Wait::Reason::Data};
    }
    std::vector<Target> targets;
    for (const auto& entry : last) targets.push_back(entry.second);
    return targets;
  }

  /// Lets body[w] wait for the steps of other streams that it must not overtake.
  void wait_in_loop(std::vector<Step>& body, size_t w, int trips) {
    for (const Target& target : targets_of(body, w)) {
      // A peer kernel waits for the signal of all ranks instead.
      if (!barrier_axes(plan_, body[w]).empty() && target.lag == 0) continue;
      if (is_awaited(body, w, target)) continue;
      const SignalId signal = writer_.done_signal(body[target.step], {}, trips);
      wait(body[w], signal, Per::Chunk, target.lag, target.reason, false);
    }
  }

  /// True if an earlier step of the same stream waits for the target or a later step already.
  bool is_awaited(const std::vector<Step>& body, size_t w, const Target& target) const {
    for (size_t s = 0; s < w; ++s) {
      if (body[s].stream != body[w].stream) continue;
      for (const Wait& wait : body[s].waits)
        if (wait.lag <= target.lag && wait.per == Per::Chunk && is_raised_from(body, target.step, wait.signal))
          return true;
    }
    return false;
  }

  /// True if a step of the stream of body[first], itself or a later one, raises the signal.
  static bool is_raised_from(const std::vector<Step>& body, int first, SignalId signal) {
    for (size_t t = static_cast<size_t>(first); t < body.size(); ++t)
      for (const Raise& raise : body[t].raises)
        if (raise.signal == signal && body[t].stream == body[static_cast<size_t>(first)].stream) return true;
    return false;
  }

  /// A peer kernel starts when its operands are ready on all ranks, and when no rank uses its results any longer. On
  /// each stream it waits for the last step before it that made its operands, or for the last one before the loop. It
  /// need not wait for a step that ends with a barrier of all these ranks. A barrier of another axis does not count.
  void wait_for_peers(std::vector<Step>& steps, size_t at, std::vector<Step>& body, size_t w, int trips) {
    const std::vector<int> axes = barrier_axes(plan_, body[w]);
    if (axes.empty()) return;
    std::map<int, size_t> last;  // by stream
    for (size_t t = 0; t < w; ++t)
      if (conflict(body[w], body[t]) || body[t].stream == body[w].stream) last[body[t].stream] = t;
    for (const auto& entry : last) {
      Step& target = body[entry.second];
      if (target.stream == body[w].stream && is_meeting_of(plan_, target, axes)) continue;
      wait(body[w], writer_.done_signal(target, axes, trips), Per::Chunk, 0, Wait::Reason::Data, true);
    }
    for (size_t t = w + 1; t < body.size(); ++t)
      if (!last.contains(body[t].stream)) wait_for_readers(body, w, t, axes, trips);
    if (!last.empty()) return;
    wait_for_last(steps, at, kComputeStream, body[w], axes, true);
    if (body[w].stream != kComputeStream) wait_for_last(steps, at, body[w].stream, body[w], axes, true);
  }

  /// Waits for body[t], a step after the kernel body[w], which may still read on a peer the instance of some chunks ago
  /// that the kernel overwrites in the peer's window.
  void wait_for_readers(std::vector<Step>& body, size_t w, size_t t, const std::vector<int>& axes, int trips) {
    BufferId buffer;
    if (!conflict(body[w], body[t], &buffer) || apart_in_time(body[w], body[t])) return;
    wait(body[w], writer_.done_signal(body[t], axes, trips), Per::Chunk, plan_.buffer(buffer).depth,
         Wait::Reason::Reuse, true);
  }

  static bool waits_for_stream(const std::vector<Step>& body, const Step& step, int stream) {
    for (const Wait& wait : step.waits)
      for (const Step& t : body)
        for (const Raise& raise : t.raises)
          if (raise.signal == wait.signal && wait.lag == 0 && t.stream == stream) return true;
    return false;
  }

  /// The first step on "comm" waits for the step before the loop; the step after the loop waits for the last one on
  /// "comm".
  void fork_and_join(std::vector<Step>& steps, size_t at, ForStep& loop) {
    const int comm = writer_.stream("comm");
    std::vector<Step>& body = loop.body;
    const auto on_comm = [&](const Step& s) { return s.stream == comm; };
    Step& first = *std::find_if(body.begin(), body.end(), on_comm);
    if (!waits_for_stream(body, first, kComputeStream)) wait_for_last(steps, at, kComputeStream, first, {}, false);
    Step* after = first_on_compute(steps, at + 1);
    if (!after) return;
    Step& last = *std::find_if(body.rbegin(), body.rend(), on_comm);
    // A kernel that reaches into its peers' windows waits for "comm" of all of them.
    const std::vector<int> axes = barrier_axes(plan_, *after);
    wait(*after, writer_.done_signal(last, axes, loop.trips), writer_.once(), 0,
         conflict(last, *after) ? Wait::Reason::Data : Wait::Reason::Position, !axes.empty());
  }

  /// The step from steps[at] on that runs first on the compute stream. The streams of later loops are not assigned yet:
  /// exchanging steps of a loop of two streams will not run on it.
  Step* first_on_compute(std::vector<Step>& steps, size_t at) {
    while (at < steps.size() && is_transfer(steps[at])) ++at;
    if (at >= steps.size()) return nullptr;
    auto* loop = std::get_if<ForStep>(&steps[at].what);
    if (!loop) return &steps[at];
    if (forks(steps, at, *loop))
      for (size_t i = 0; i < loop->body.size(); ++i)
        if (!meets_ranks(plan_, loop->body[i])) return first_on_compute(loop->body, i);
    return first_on_compute(loop->body, 0);
  }

  Plan& plan_;
  Block& block_;
  SignalWriter writer_;
};

/// The steps of a loop's own stream that become one kernel wait and raise inside: each must be a kernel, or add a
/// chunk's part to a total.
void enter_kernel(const Plan& plan, Step& step, const Loc& loc, Diags& diags) {
  if (!std::holds_alternative<LaunchStep>(step.what) && !accumulates(step))
    diags.error("overlap-step-unsupported", loc,
                "'{}' ({}) is no kernel, and this mechanism makes one kernel of what computes; take mechanism: streams",
                step.name, step_kind(plan, step));
  for (Wait& wait : step.waits) wait.in_kernel = true;
  for (Raise& raise : step.raises) raise.in_kernel = true;
}

}  // namespace

void order_loops(Plan& plan) {
  for (Block& block : plan.blocks) LoopOrder(plan, block).order();
}

void enter_kernels(Plan& plan, Diags& diags) {
  for (Block& block : plan.blocks)
    for_each_step(block.steps, [&](Step& step) {
      auto* loop = std::get_if<ForStep>(&step.what);
      if (!loop || loop->mechanism == Mechanism::Streams) return;
      for (Step& inner : loop->body)
        if (inner.stream == step.stream) enter_kernel(plan, inner, step.transform_loc, diags);
    });
}

}  // namespace weftc

// Streams, and what orders them.
//   In a For that overlaps, what meets other ranks runs on the stream "comm", the rest on "compute". Steps of different
//   streams that touch the same buffer are ordered by a signal; a buffer that both use has two instances, and whoever
//   writes instance c waits for the readers of c - 2. Around the For the streams fork and join, so that outside of it
//   the order of steps is that of one stream. A kernel that reads its peers' windows waits inside for a signal that all
//   of them raise: everything before that signal on every rank is done. It ends with a meeting of its ranks, so that
//   what it read may be overwritten behind it.
//   Mechanism signal orders a loop alike, and what computes is one kernel that raises and awaits inside; with mechanism
//   fused all of the loop is one kernel on one stream, in which one chunk follows the other.
#include <algorithm>
#include <map>
#include <set>

#include "ir/base/check.h"
#include "ir/text/plan_text.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

constexpr int kCompute = 0;
constexpr int kDepth = 2;

const Kernel* kernel_of(const Plan& plan, const Step& step) {
  const auto* launch = std::get_if<LaunchStep>(&step.what);
  return launch ? &plan.kernel(launch->kernel) : nullptr;
}

/// Axes over which a launched kernel meets its peers; empty: it does not.
std::vector<int> peer_axes(const Plan& plan, const Step& step) {
  const Kernel* kernel = kernel_of(plan, step);
  if (!kernel || kernel->category != Category::Collective) return {};
  for (const Access& access : step.accesses)
    if (!access.peers.empty()) return access.peers;
  return {};
}

bool meets_ranks(const Plan& plan, const Step& step) {
  const auto* what = std::get_if<CollectiveStep>(&step.what);
  return (what && what->kind != OpKind::ShardSlice) || !peer_axes(plan, step).empty();
}

bool accumulates(const Step& step) {
  return std::holds_alternative<CopyStep>(step.what) &&
         std::any_of(step.accesses.begin(), step.accesses.end(), [](const Access& a) { return a.accumulate; });
}

bool is_leaf(const Step& step) { return bodies_of(step).empty(); }

/// Both touch the same elements: one writes, and no time digit tells them apart.
bool conflict(const Access& a, const Access& b) { return a.buffer == b.buffer && (a.write || b.write); }
bool conflict(const Step& a, const Step& b, BufferId* buffer = nullptr) {
  for (const Access& x : a.accesses)
    for (const Access& y : b.accesses) {
      if (!conflict(x, y)) continue;
      if (buffer) *buffer = x.buffer;
      return true;
    }
  return false;
}
/// Whether what they touch differs from chunk to chunk.
bool apart_in_time(const Step& a, const Step& b) {
  for (const Access& x : a.accesses)
    for (const Access& y : b.accesses)
      if (conflict(x, y) && (x.part.empty() || x.part != y.part)) return false;
  return true;
}

class SignalPlanner {
 public:
  SignalPlanner(Plan& plan, Diags& diags, Independence independence)
      : plan_(plan), diags_(diags), independence_(independence) {}

  void run() {
    for (Block& block : plan_.blocks) order(block.steps, 1);
    if (independence_ != Independence::Shared) part_transfers();
    deepen_shared_memory();
    for (size_t t = 0; t < plan_.transfers.size(); ++t) order_transfer(static_cast<int>(t));
    for (Block& block : plan_.blocks) enter_kernels(block.steps);
  }

 private:
  int stream(const std::string& name) {
    const auto at = std::find(plan_.streams.begin(), plan_.streams.end(), name);
    if (at != plan_.streams.end()) return static_cast<int>(at - plan_.streams.begin());
    plan_.streams.push_back(name);
    return static_cast<int>(plan_.streams.size()) - 1;
  }
  int comm_stream() { return stream("comm"); }

  /// The one element of a signal, of a micro-batch if there are several.
  Per once() const { return plan_.micro_batches > 1 ? Per::MicroBatch : Per::Once; }

  /// The signal that a step raises when it is done: for its own rank's streams, or for the ranks of some axes.
  SignalId signal_of(Step& step, PlaceId place, const std::vector<int>& axes, int count) {
    for (const Raise& raise : step.raises)
      if (plan_.signals[raise.signal.index].axes == axes) return raise.signal;
    plan_.signals.push_back(
        {step.name + (axes.empty() ? ".done" : ".ready"), count * plan_.micro_batches, place, axes});
    const SignalId id{static_cast<uint32_t>(plan_.signals.size() - 1)};
    step.raises.push_back({id, count > 1 ? Per::Chunk : once(), false});
    return id;
  }

  PlaceId place_of(const Step& step) const {
    return step.accesses.empty() ? PlaceId{0} : plan_.buffer(step.accesses[0].buffer).place;
  }

  /// The last step on the stream before position `at`: of a For the one in its last chunk; another loop or a branch is
  /// one step.
  Step* last_leaf(std::vector<Step>& steps, size_t at, int stream, int& count) {
    while (at-- > 0) {
      Step& step = steps[at];
      const bool is_for = std::holds_alternative<ForStep>(step.what);
      if (!is_for && step.stream == stream) return &step;
      if (auto* loop = std::get_if<ForStep>(&step.what)) {
        int inner = loop->trips;
        if (Step* found = last_leaf(loop->body, loop->body.size(), stream, inner)) {
          count = inner;
          return found;
        }
      }
    }
    return nullptr;
  }

  void order(std::vector<Step>& steps, int trips) {
    for (size_t i = 0; i < steps.size(); ++i) {
      Step& step = steps[i];
      if (auto* loop = std::get_if<ForStep>(&step.what)) {
        order_loop(steps, i, *loop);
        continue;
      }
      for (std::vector<Step>* body : bodies_of(step)) order(*body, 1);
      const std::vector<int> axes = peer_axes(plan_, step);
      if (axes.empty()) continue;
      int count = trips;
      Step* before = last_leaf(steps, i, step.stream, count);
      if (before)
        step.waits.push_back({signal_of(*before, place_of(*before), axes, count), once(), 0, Wait::Reason::Data, true});
    }
  }

  struct Spot {
    size_t block, at;  // a step of a block; the same in all micro-batches
  };

  bool touches(const Step& step, BufferId buffer, bool write) const {
    for (const Access& access : step.accesses)
      if (access.buffer == buffer && access.write == write) return true;
    for (const auto* body : bodies_of(step))
      for (const Step& inner : *body)
        if (touches(inner, buffer, write)) return true;
    return false;
  }

  /// Steps other than sends and recvs that touch a buffer.
  std::vector<Spot> users(BufferId buffer, bool write) const {
    std::vector<Spot> found;
    for (size_t b = 0; b < plan_.blocks.size(); ++b)
      for (size_t i = 0; i < plan_.blocks[b].steps.size(); ++i) {
        const Step& step = plan_.blocks[b].steps[i];
        const bool moves = std::holds_alternative<SendStep>(step.what) || std::holds_alternative<RecvStep>(step.what);
        if (!moves && touches(step, buffer, write)) found.push_back({b, i});
      }
    return found;
  }

  template <class Kind>
  Spot find_move(int transfer) const {
    for (size_t b = 0; b < plan_.blocks.size(); ++b)
      for (size_t i = 0; i < plan_.blocks[b].steps.size(); ++i)
        if (const auto* what = std::get_if<Kind>(&plan_.blocks[b].steps[i].what))
          if (what->transfer == transfer) return {b, i};
    WEFT_CHECK(false, "a transfer without its steps");
  }

  Step& step_at(const Spot& spot) { return plan_.blocks[spot.block].steps[spot.at]; }

  /// What a step waits for when it stands behind a loop or is one.
  Step& first_leaf(Step& step) {
    const auto bodies = bodies_of(step);
    return bodies.empty() || bodies[0]->empty() ? step : first_leaf(bodies[0]->front());
  }

  SignalId done_by(const Spot& spot) {
    int count = 1;
    Step* leaf = last_leaf(plan_.blocks[spot.block].steps, spot.at + 1, kCompute, count);
    WEFT_CHECK(leaf, "no step before a transfer");
    return signal_of(*leaf, place_of(*leaf), {}, count);
  }

  /// Most micro-batches that have begun in block `from` and not yet ended in block `to`, in the order of the blocks.
  int most_between(size_t from, size_t to) const {
    int open = 0, most = 1;
    for (const OrderedBlock& entry : plan_.order) {
      if (static_cast<size_t>(entry.block) == from) most = std::max(most, ++open);
      if (static_cast<size_t>(entry.block) == to) --open;
    }
    return most;
  }
  bool share_rank(size_t a, size_t b) const {
    const auto& of = plan_.places[plan_.blocks[a].place.index].ranks;
    const auto& other = plan_.places[plan_.blocks[b].place.index].ranks;
    return std::any_of(of.begin(), of.end(),
                       [&](int r) { return std::find(other.begin(), other.end(), r) != other.end(); });
  }

  void deepen(BufferId id, int depth) {
    Buffer& buffer = plan_.buffers[id.index];
    buffer.depth = std::min(std::max(buffer.depth, depth), plan_.micro_batches);
  }

  /// A stream for the sends and one for the recvs of each pair of blocks: both blocks name them in the same order, so
  /// that transfers of one pair never wait for another's.
  void part_transfers() {
    std::map<std::pair<size_t, size_t>, int> pairs;
    for (size_t t = 0; t < plan_.transfers.size(); ++t) {
      const Spot send = find_move<SendStep>(static_cast<int>(t)), recv = find_move<RecvStep>(static_cast<int>(t));
      const int pair =
          pairs.emplace(std::make_pair(send.block, recv.block), static_cast<int>(pairs.size()) + 1).first->second;
      const std::string number = pair > 1 ? std::to_string(pair) : "";
      step_at(send).stream = stream("send" + number);
      step_at(recv).stream = stream("recv" + number);
    }
  }

  /// Blocks of one place read each other's values where they lie: as many of them as micro-batches are between the
  /// blocks.
  void deepen_shared_memory() {
    for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
      if (plan_.buffers[b].life != Life::MicroBatch) continue;
      const std::vector<Spot> makers = users({b}, true);
      for (const Spot& maker : makers)
        for (const Spot& reader : users({b}, false))
          if (reader.block != maker.block) deepen({b}, most_between(maker.block, reader.block));
    }
  }

  /// A send follows what made its source; who makes it again waits for the send of the instance before. A recv waits
  /// for the last reader of the instance before; the first reader waits for the recv.
  void order_transfer(int number) {
    const BufferId from = plan_.transfers[number].from, to = plan_.transfers[number].to;
    const Spot send = find_move<SendStep>(number), recv = find_move<RecvStep>(number);
    const std::vector<Spot> makers = users(from, true), readers = users(to, false);
    const bool loaded = makers.empty() && plan_.micro_batches == 1;  // an input, or a view of one
    WEFT_CHECK((loaded || !makers.empty()) && !readers.empty(),
               "transfer '" + plan_.transfers[number].name + "' moves nothing");
    deepen(from, kDepth);
    deepen(to, kDepth);
    for (size_t a = 0; a < plan_.blocks.size(); ++a)
      if (share_rank(a, readers.back().block) && share_rank(a, send.block))
        deepen(to, most_between(a, readers.back().block));
    deepen(to, most_between(readers.front().block, readers.back().block) + 1);
    for (const Spot& maker : makers)
      for (const Spot& reader : users(from, false)) deepen(from, most_between(maker.block, reader.block));
    if (independence_ == Independence::AllMicroBatches)
      deepen(from, plan_.micro_batches), deepen(to, plan_.micro_batches);

    const auto wait = [&](Step& step, SignalId signal, int lag) {
      step.waits.push_back({signal, once(), lag, lag ? Wait::Reason::Reuse : Wait::Reason::Data, false});
    };
    const auto moved = [&](const Spot& spot) {
      return signal_of(step_at(spot), plan_.blocks[spot.block].place, {}, 1);
    };
    const int deep_from = plan_.buffer(from).depth, deep_to = plan_.buffer(to).depth;
    if (!loaded) wait(step_at(send), done_by(makers.back()), 0);
    if (deep_from < plan_.micro_batches) wait(first_leaf(step_at(makers.front())), moved(send), deep_from);
    if (deep_to < plan_.micro_batches) wait(step_at(recv), done_by(readers.back()), deep_to);
    std::set<size_t> blocks;
    for (const Spot& reader : readers)
      if (blocks.insert(reader.block).second) wait(first_leaf(step_at(reader)), moved(recv), 0);
  }

  void order_loop(std::vector<Step>& steps, size_t at, ForStep& loop) {
    std::vector<Step>& body = loop.body;
    for (Step& inner : body)
      if (auto* nested = std::get_if<ForStep>(&inner.what))
        order_loop(body, static_cast<size_t>(&inner - body.data()), *nested);
    const auto meets = [&](const Step& s) { return meets_ranks(plan_, s); };
    const bool flat = std::all_of(body.begin(), body.end(), is_leaf);
    const bool overlaps = loop.mechanism != Mechanism::Fused && flat && loop.trips > 1 &&
                          std::any_of(body.begin(), body.end(), meets) && !std::all_of(body.begin(), body.end(), meets);
    if (overlaps) {
      const int comm = comm_stream();
      for (Step& s : body) s.stream = meets(s) ? comm : kCompute;
      deepen_buffers(body);
      for (size_t w = 0; w < body.size(); ++w) wait_in_loop(body, w, loop.trips);
    }
    for (size_t w = 0; w < body.size(); ++w) wait_for_peers(steps, at, body, w, loop.trips);
    if (overlaps) fork_and_join(steps, at, loop);
  }

  /// The steps of a loop's own stream may be one kernel: it waits and raises by itself, so all of them must be kernels,
  /// or add a chunk's part to a total.
  void enter_kernels(std::vector<Step>& steps) {
    for (Step& step : steps) {
      for (std::vector<Step>* body : bodies_of(step)) enter_kernels(*body);
      auto* loop = std::get_if<ForStep>(&step.what);
      if (!loop || loop->mechanism == Mechanism::Streams) continue;
      for (Step& inner : loop->body)
        if (inner.stream == step.stream) enter_kernel(inner, step.transform_loc);
    }
  }

  void enter_kernel(Step& step, const Loc& loc) {
    if (!kernel_of(plan_, step) && !accumulates(step))
      diags_.error("overlap-step-unsupported", loc,
                   "'{}' ({}) is no kernel, and this mechanism makes one kernel of what computes; take mechanism: "
                   "streams",
                   step.name, step_kind(plan_, step));
    for (Wait& wait : step.waits) wait.in_kernel = true;
    for (Raise& raise : step.raises) raise.in_kernel = true;
  }

  /// Two instances of what steps of both streams use and only this loop knows.
  void deepen_buffers(const std::vector<Step>& body) {
    std::map<BufferId, std::pair<int, bool>> streams;  // first stream, several
    for (const Step& step : body)
      for (const Access& access : step.accesses) {
        const auto [at, fresh] = streams.emplace(access.buffer, std::make_pair(step.stream, false));
        if (!fresh && at->second.first != step.stream) at->second.second = true;
      }
    for (const auto& [id, use] : streams)
      if (use.second && plan_.buffer(id).life == Life::Chunk) plan_.buffers[id.index].depth = kDepth;
  }

  struct Target {
    int step;  // in the body
    int lag;
    Wait::Reason reason;
  };

  /// Steps of other streams that body[w] must not overtake: for each stream and lag the last one.
  std::vector<Target> targets_of(const std::vector<Step>& body, size_t w) const {
    std::map<std::pair<int, int>, Target> last;
    for (size_t t = 0; t < body.size(); ++t) {
      BufferId buffer;
      if (body[t].stream == body[w].stream || !conflict(body[w], body[t], &buffer)) continue;
      int lag = 0;
      if (t > w) {
        if (apart_in_time(body[w], body[t])) continue;
        lag = plan_.buffer(buffer).depth;
      }
      const auto reason = lag ? Wait::Reason::Reuse : Wait::Reason::Data;
      last[{body[t].stream, lag}] = {static_cast<int>(t), lag, reason};
    }
    std::vector<Target> targets;
    for (const auto& entry : last) targets.push_back(entry.second);
    return targets;
  }

  void wait_in_loop(std::vector<Step>& body, size_t w, int trips) {
    for (const Target& target : targets_of(body, w)) {
      if (!peer_axes(plan_, body[w]).empty() && target.lag == 0) continue;  // waits for all ranks' signal instead
      if (is_awaited(body, w, target)) continue;
      const SignalId signal = signal_of(body[target.step], place_of(body[target.step]), {}, trips);
      body[w].waits.push_back({signal, Per::Chunk, target.lag, target.reason, false});
    }
  }

  /// An earlier step of the same stream waits for the same or a later one already.
  bool is_awaited(const std::vector<Step>& body, size_t w, const Target& target) const {
    for (size_t s = 0; s < w; ++s) {
      if (body[s].stream != body[w].stream) continue;
      for (const Wait& wait : body[s].waits) {
        if (wait.lag > target.lag || wait.per != Per::Chunk) continue;
        for (size_t t = static_cast<size_t>(target.step); t < body.size(); ++t)
          for (const Raise& raise : body[t].raises)
            if (raise.signal == wait.signal && body[t].stream == body[target.step].stream) return true;
      }
    }
    return false;
  }

  /// A kernel over the peer table starts when what it reads is there on all ranks, and when no rank uses any longer
  /// what it writes: a signal of the last step before it on each stream that made its operands, or before the loop.
  void wait_for_peers(std::vector<Step>& steps, size_t at, std::vector<Step>& body, size_t w, int trips) {
    const std::vector<int> axes = peer_axes(plan_, body[w]);
    if (axes.empty()) return;
    std::map<int, size_t> last;  // by stream
    for (size_t t = 0; t < w; ++t)
      if (conflict(body[w], body[t]) || body[t].stream == body[w].stream) last[body[t].stream] = t;
    for (const auto& entry : last) {
      Step& target = body[entry.second];
      if (meets_ranks(plan_, target) && target.stream == body[w].stream) continue;  // it has met these ranks already
      body[w].waits.push_back(
          {signal_of(target, place_of(target), axes, trips), Per::Chunk, 0, Wait::Reason::Data, true});
    }
    for (size_t t = w + 1; t < body.size(); ++t)
      wait_for_readers(body, w, t, axes, last.contains(body[t].stream), trips);
    if (!last.empty()) return;
    int count = 1;
    if (Step* before = last_leaf(steps, at, kCompute, count))
      body[w].waits.push_back(
          {signal_of(*before, place_of(*before), axes, count), once(), 0, Wait::Reason::Data, true});
  }

  /// What a kernel writes into the windows of its peers they may still read as it was some chunks ago, in a step behind
  /// it: unless it waits for a later step of that stream on all ranks, it waits for this one.
  void wait_for_readers(std::vector<Step>& body, size_t w, size_t t, const std::vector<int>& axes, bool is_awaited,
                        int trips) {
    BufferId buffer;
    if (is_awaited || !conflict(body[w], body[t], &buffer) || apart_in_time(body[w], body[t])) return;
    body[w].waits.push_back({signal_of(body[t], place_of(body[t]), axes, trips), Per::Chunk, plan_.buffer(buffer).depth,
                             Wait::Reason::Reuse, true});
  }

  static bool waits_for_stream(const std::vector<Step>& body, const Step& step, int stream) {
    for (const Wait& wait : step.waits)
      for (const Step& t : body)
        for (const Raise& raise : t.raises)
          if (raise.signal == wait.signal && wait.lag == 0 && t.stream == stream) return true;
    return false;
  }

  void fork_and_join(std::vector<Step>& steps, size_t at, ForStep& loop) {
    const int comm = comm_stream();
    std::vector<Step>& body = loop.body;
    const auto first = std::find_if(body.begin(), body.end(), [&](const Step& s) { return s.stream == comm; });
    int count = 1;
    Step* before = last_leaf(steps, at, kCompute, count);
    if (before && !waits_for_stream(body, *first, kCompute))
      first->waits.push_back({signal_of(*before, place_of(*before), {}, count), once(), 0, Wait::Reason::Data, false});
    Step* behind = first_on_compute(steps, at + 1);
    if (!behind) return;
    const auto last = std::find_if(body.rbegin(), body.rend(), [&](const Step& s) { return s.stream == comm; });
    const bool data = conflict(*last, *behind);
    behind->waits.push_back({signal_of(*last, place_of(*last), {}, loop.trips), once(), 0,
                             data ? Wait::Reason::Data : Wait::Reason::Position, false});
  }

  /// The step behind a loop that runs next on the compute stream; streams of loops to come are not known yet, but their
  /// first step that meets no rank will be there.
  Step* first_on_compute(std::vector<Step>& steps, size_t at) {
    if (at >= steps.size()) return nullptr;
    auto* loop = std::get_if<ForStep>(&steps[at].what);
    if (!loop) return &steps[at];
    for (size_t i = 0; i < loop->body.size(); ++i)
      if (!meets_ranks(plan_, loop->body[i])) return first_on_compute(loop->body, i);
    return first_on_compute(loop->body, 0);
  }

  Plan& plan_;
  Diags& diags_;
  const Independence independence_;
};

}  // namespace

void add_signals(PlanDraft& planning, Independence independence) {
  SignalPlanner(planning.plan, planning.diags, independence).run();
}

}  // namespace weftc

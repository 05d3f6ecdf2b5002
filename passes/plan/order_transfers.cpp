// Orders transfers between the stages of a pipeline, and gives buffers the instances that micro-batches in flight need.
//
// A transfer. Its send is in the block of the stage that makes the value, its recv in the block of the stage that reads
// it; each has a stream of its own. Dependencies (-->) and the reuse of memory (- ->), with d instances:
//
//   stage 0   make m  --> send m         make m + d  waits for send m
//                           |  (moves)
//   stage 1               recv m --> first reader of m ... last reader of m - ->  recv m + d
//
// Depth of buffers. A stage may begin micro-batch m + 1 before another has ended m. In the order of 1F1B on two stages,
//
//   stage 0   f0 f1 b0 ...      f1 is made while f0 is still being read: two instances of what f hands to b
//   stage 1      f0 b0 f1 ...
//
// so a buffer has one instance for each micro-batch that is ever between its writing block and its last reading block
// (most_between). A buffer that a transfer touches has at least two, so that the transfer runs beside the computation.
#include <algorithm>
#include <map>
#include <set>

#include "ir/base/check.h"
#include "passes/plan/plan_parts.h"
#include "passes/plan/signal_writer.h"

namespace weftc {

namespace {

/// A step of a block; the same in all micro-batches.
struct Spot {
  size_t block, at;
};

class TransferOrder {
 public:
  TransferOrder(Plan& plan, Independence independence)
      : plan_(plan), independence_(independence), writer_(plan), positions_(plan.blocks.size()) {
    for (size_t at = 0; at < plan.order.size(); ++at)
      positions_[static_cast<size_t>(plan.order[at].block)].push_back(at);
  }

  void run() {
    if (independence_ != Independence::Shared) part_streams();
    receive_early();
    deepen_shared_memory();
    for (size_t t = 0; t < plan_.transfers.size(); ++t) order_transfer(static_cast<int>(t));
  }

 private:
  static bool touches(const Step& step, BufferId buffer, bool write) {
    for (const Access& access : step.accesses)
      if (access.buffer == buffer && access.write == write) return true;
    for (const auto* body : bodies_of(step))
      for (const Step& inner : *body)
        if (touches(inner, buffer, write)) return true;
    return false;
  }

  /// Steps other than sends and recvs that read or write a buffer.
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

  /// The signal that the step, or the last one inside, raises when it is done.
  SignalId done_by(const Spot& spot) {
    int count = 1;
    Step* leaf = last_leaf(plan_.blocks[spot.block].steps, spot.at + 1, kComputeStream, count);
    WEFT_CHECK(leaf, "no step before a transfer");
    return writer_.done_signal(*leaf, {}, count);
  }
  /// Lets a step that uses a buffer wait for a transfer from or to it. A kernel that reaches into the windows of its
  /// peers waits inside, for the transfers of all these ranks.
  void wait_for_move(const Spot& user, const Spot& move, int lag) {
    Step& step = first_leaf(step_at(user));
    const std::vector<int> axes = barrier_axes(plan_, step);
    const SignalId moved = writer_.done_signal(step_at(move), plan_.blocks[move.block].place, axes, 1);
    const Wait::Reason reason = lag ? Wait::Reason::Reuse : Wait::Reason::Data;
    step.waits.push_back({moved, writer_.once(), lag, reason, !axes.empty()});
  }

  /// The most micro-batches that have begun in block `from` and not yet ended in block `to`, in the order of the
  /// blocks.
  int most_between(size_t from, size_t to) const {
    int open = 0, most = 1;
    for (const OrderedBlock& entry : plan_.order) {
      if (static_cast<size_t>(entry.block) == from) most = std::max(most, ++open);
      if (static_cast<size_t>(entry.block) == to) --open;
    }
    return most;
  }

  bool share_rank(size_t a, size_t b) const {
    const Place &of = plan_.places[plan_.blocks[a].place.index], &other = plan_.places[plan_.blocks[b].place.index];
    return std::any_of(of.ranks.begin(), of.ranks.end(), [&](int rank) { return other.holds(rank); });
  }

  void deepen(BufferId id, int depth) {
    Buffer& buffer = plan_.buffers[id.index];
    buffer.depth = std::min(std::max(buffer.depth, depth), plan_.micro_batches);
  }

  /// A stream for the sends and one for the recvs of each pair of blocks: both blocks name them in the same order, so
  /// that transfers of one pair never wait for another's.
  void part_streams() {
    std::map<std::pair<size_t, size_t>, int> pairs;
    for (size_t t = 0; t < plan_.transfers.size(); ++t) {
      const Spot send = find_move<SendStep>(static_cast<int>(t)), recv = find_move<RecvStep>(static_cast<int>(t));
      const int next = static_cast<int>(pairs.size()) + 1;
      const int pair = pairs.emplace(std::make_pair(send.block, recv.block), next).first->second;
      const std::string number = pair > 1 ? std::to_string(pair) : "";
      step_at(send).stream = writer_.stream("send" + number);
      step_at(recv).stream = writer_.stream("recv" + number);
    }
  }

  bool is_received_early(const Spot& spot) const { return plan_.blocks[spot.block].turn == Turn::Before; }

  /// A value that arrives before the micro-batches is read in all of them. The compute stream receives it, so that it
  /// need not wait for it again.
  void receive_early() {
    for (size_t t = 0; t < plan_.transfers.size(); ++t)
      if (const Spot recv = find_move<RecvStep>(static_cast<int>(t)); is_received_early(recv))
        step_at(recv).stream = kComputeStream;
  }

  /// Blocks of one place read each other's values where they lie.
  void deepen_shared_memory() {
    for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
      if (plan_.buffers[b].life != Life::MicroBatch) continue;
      const std::vector<Spot> readers = users({b}, false);
      for (const Spot& maker : users({b}, true))
        for (const Spot& reader : readers)
          if (reader.block != maker.block) deepen({b}, most_between(maker.block, reader.block));
    }
  }

  void deepen_ends(BufferId from, BufferId to, const Spot& send, const std::vector<Spot>& makers,
                   const std::vector<Spot>& readers) {
    deepen(from, kInstances);
    deepen(to, kInstances);
    for (const Spot& reader : readers) {
      for (size_t a = 0; a < plan_.blocks.size(); ++a)
        if (share_rank(a, reader.block) && share_rank(a, send.block)) deepen(to, most_between(a, reader.block));
      deepen(to, most_between(readers.front().block, reader.block) + 1);
    }
    for (const Spot& maker : makers)
      for (const Spot& reader : users(from, false)) deepen(from, most_between(maker.block, reader.block));
    if (independence_ != Independence::AllMicroBatches) return;
    deepen(from, plan_.micro_batches);
    deepen(to, plan_.micro_batches);
  }

  bool is_forward(const Spot& spot) const { return plan_.blocks[spot.block].phase == Phase::Forward; }

  /// True if a block has ended each micro-batch before the other one begins it.
  bool comes_before(size_t block, size_t other) const {
    return positions_[block].size() == positions_[other].size() &&
           std::ranges::equal(positions_[block], positions_[other], std::less<>());
  }

  /// The last readers of an instance: in each block the last one, of blocks that no other always follows.
  std::vector<Spot> last_readers(const std::vector<Spot>& readers) const {
    std::map<size_t, Spot> last;
    for (const Spot& reader : readers) last[reader.block] = reader;
    std::vector<Spot> found;
    for (const auto& [block, reader] : last)
      if (std::ranges::none_of(last, [&](const auto& other) { return comes_before(reader.block, other.first); }))
        found.push_back(reader);
    return found;
  }

  /// Waits for the last readers of an instance. Where the forward pass receives the value, also waits for the last
  /// forward reader, because an evaluation leaves out all later ones.
  void wait_for_readers(Step& step, bool is_of_forward, const std::vector<Spot>& readers, int lag) {
    const auto wait = [&](const Spot& reader, bool trains) {
      step.waits.push_back({done_by(reader), writer_.once(), lag, Wait::Reason::Reuse, false, trains});
    };
    const auto in_forward = [&](const Spot& reader) { return is_forward(reader); };
    const std::vector<Spot> last = last_readers(readers);
    const bool is_cut = plan_.training && is_of_forward && !std::ranges::all_of(last, in_forward);
    std::vector<Spot> evaluated;
    if (is_cut) std::ranges::copy_if(readers, std::back_inserter(evaluated), in_forward);
    for (const Spot& reader : last_readers(evaluated)) wait(reader, false);
    for (const Spot& reader : last)
      if (!is_cut || !is_forward(reader)) wait(reader, is_cut);
  }

  /// Dependencies of a transfer: first the makers of its source, then the send, then the next write of that instance.
  /// On the other side: the last reader of the previous value of an instance, then the recv, then the first reader of
  /// each block. A value that is sent once has one instance.
  void order_transfer(int number) {
    const BufferId from = plan_.transfers[number].from, to = plan_.transfers[number].to;
    const Spot send = find_move<SendStep>(number), recv = find_move<RecvStep>(number);
    const std::vector<Spot> makers = users(from, true);
    std::vector<Spot> readers = users(to, false);
    std::ranges::stable_sort(readers, {}, [&](const Spot& reader) { return positions_[reader.block].front(); });
    const bool loaded = makers.empty() && plan_.micro_batches == 1;  // an input, or a view of one
    WEFT_CHECK((loaded || !makers.empty()) && !readers.empty(),
               "transfer '" + plan_.transfers[number].name + "' moves nothing");
    const bool is_once = plan_.blocks[send.block].turn != Turn::MicroBatch;
    if (!is_once) deepen_ends(from, to, send, makers, readers);
    const int deep_from = plan_.buffer(from).depth, deep_to = plan_.buffer(to).depth;
    if (!loaded) step_at(send).waits.push_back({done_by(makers.back()), writer_.once(), 0, Wait::Reason::Data, false});
    if (!is_once && deep_from < plan_.micro_batches) wait_for_move(makers.front(), send, deep_from);
    if (!is_once && deep_to < plan_.micro_batches) wait_for_readers(step_at(recv), is_forward(recv), readers, deep_to);
    std::set<size_t> blocks;
    for (const Spot& reader : readers)
      if (!is_received_early(recv) && blocks.insert(reader.block).second) wait_for_move(reader, recv, 0);
  }

  Plan& plan_;
  const Independence independence_;
  SignalWriter writer_;
  std::vector<std::vector<size_t>> positions_;  // in the order of blocks, by block
};

}  // namespace

void order_transfers(Plan& plan, Independence independence) { TransferOrder(plan, independence).run(); }

}  // namespace weftc

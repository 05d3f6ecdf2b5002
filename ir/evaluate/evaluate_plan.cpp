// Each stream of each rank is a lane that walks its program, like a thread of the runtime; a seed picks the next lane.
// A step runs as a whole, so an order is a sequence of steps. A race shows as different results for different seeds, a
// deadlock as a state in which no lane can continue.
#include "ir/evaluate/evaluate_plan.h"

#include <algorithm>
#include <set>

#include "ir/base/check.h"
#include "ir/base/text.h"
#include "ir/evaluate/plan_machine.h"
#include "ir/plan_walk.h"
#include "ir/trips.h"

namespace weftc {

namespace {

using Now = PlanMachine::Now;

/// A list of steps that a lane walks: a block, or the body of an enclosing step.
struct Level {
  const std::vector<Step>* steps;
  const Step* owner = nullptr;  // the For, If or Loop around them
  size_t at = 0;
  int trips = 1, trip = 0;  // of a For
};

/// One stream of one rank: its position, and its chunk, micro-batch and iteration.
struct Lane {
  int rank, stream;
  size_t next_block = 0;
  std::vector<Level> levels;
  Now now;
  std::map<const Step*, int64_t> trips;  // of the Loops being run
  bool inside = false;                   // a kernel or send has begun and waits for its peers
  bool done = false;

  const Step& step() const { return (*levels.back().steps)[levels.back().at]; }
};

class PlanInterpreter {
 public:
  PlanInterpreter(const Plan& plan, uint32_t seed, int64_t invocation)
      : plan_(plan), machine_(plan, invocation), random_(seed * 2654435761u + 1) {}

  PlanRun run(const std::vector<Tensor>& inputs) {
    for (size_t i = 0; i < plan_.inputs.size(); ++i) machine_.load(plan_.inputs[i], inputs[i]);
    for (int rank = 0; rank < plan_.world; ++rank)
      for (int stream = 0; stream < static_cast<int>(plan_.streams.size()); ++stream) {
        lanes_.push_back({rank, stream, 0, {}, {}, {}, false, false});
        settle(lanes_.back());
      }
    while (machine_.error.empty() && advance()) {
    }
    PlanRun result;
    if (machine_.error.empty()) {
      for (const Port& port : plan_.outputs) result.outputs.push_back(machine_.assemble_port(port, port.type.shape));
      for (const StateSlot& state : plan_.states)  // the inputs of the next iteration
        if (const Port* port = find_port(plan_.inputs, state.input))
          result.states.push_back(machine_.assemble_port(*port, find_port(plan_.outputs, state.output)->type.shape));
    }
    result.error = machine_.error;
    return result;
  }

 private:
  /// A random number below n, from a fixed generator, so that a seed determines an order.
  int roll(size_t n) {
    random_ = random_ * 1664525u + 1013904223u;
    return static_cast<int>((random_ >> 8) % n);
  }

  /// Runs one step of one lane; false when all are done or none can continue.
  bool advance() {
    std::vector<size_t> ready;
    bool all_done = true;
    for (size_t l = 0; l < lanes_.size(); ++l) {
      all_done = all_done && lanes_[l].done;
      if (!lanes_[l].done && can_go(lanes_[l])) ready.push_back(l);
    }
    if (all_done) return false;
    if (ready.empty()) {
      for (const Lane& lane : lanes_)
        if (!lane.done) machine_.error = format("rank {} waits for ever in '{}'", lane.rank, lane.step().name);
      return false;
    }
    go(lanes_[ready[static_cast<size_t>(roll(ready.size()))]]);
    return true;
  }

  /// True for steps whose branch all streams of a rank take together.
  bool is_control(const Step& step) const {
    return std::holds_alternative<IfStep>(step.what) || std::holds_alternative<LoopStep>(step.what);
  }

  /// Moves to the next step of this lane's stream and enters Fors on the way. It stops at a branch, where all lanes of
  /// a rank meet.
  void settle(Lane& lane) {
    while (true) {
      if (lane.levels.empty()) {
        if (!next_block(lane)) return;
        continue;
      }
      Level& level = lane.levels.back();
      if (level.at == level.steps->size()) {
        leave(lane);
        continue;
      }
      const Step& step = (*level.steps)[level.at];
      if (const auto* loop = std::get_if<ForStep>(&step.what)) {
        lane.now.time.push_back(0);
        lane.levels.push_back({&loop->body, &step, 0, loop->trips, 0});
        continue;
      }
      if (is_control(step) || step.stream == lane.stream) return;
      ++level.at;
    }
  }

  /// Continues with the next block in which the lane's rank takes part; false at the end of the order.
  bool next_block(Lane& lane) {
    while (lane.next_block < plan_.order.size()) {
      const OrderedBlock& entry = plan_.order[lane.next_block++];
      const Block& block = plan_.blocks[static_cast<size_t>(entry.block)];
      if (!plan_.places[block.place.index].holds(lane.rank)) continue;
      lane.now = {entry.micro_batch, {}, 0};
      if (plan_.micro_batches > 1) lane.now.time.push_back(entry.micro_batch);
      lane.levels.push_back({&block.steps, nullptr, 0, 1, 0});
      return true;
    }
    lane.done = true;
    return false;
  }

  /// Leaves a list of steps: repeats it for a For's next chunk, or continues after its owner. A Loop evaluates its
  /// condition again at its own step.
  void leave(Lane& lane) {
    Level& level = lane.levels.back();
    const Step* owner = level.owner;
    if (owner && std::holds_alternative<ForStep>(owner->what)) {
      if (++level.trip < level.trips) {
        lane.now.time.back() = level.trip;
        level.at = 0;
        return;
      }
      lane.now.time.pop_back();
    }
    lane.levels.pop_back();
    if (lane.levels.empty()) return;
    if (owner && std::holds_alternative<LoopStep>(owner->what)) {
      ++lane.trips[owner];
      return;
    }
    if (owner && owner->stream == lane.stream && is_control(*owner)) raise(lane, *owner);
    ++lane.levels.back().at;
  }

  /// The element of a signal for a lane: by micro-batch and chunk, `lag` of them earlier. -1 is before the first one:
  /// there is nothing to wait for.
  int element(const Lane& lane, Per per, const Signal& signal, int lag) const {
    const int each = signal.count / std::max(1, plan_.micro_batches);
    const int batch = lane.now.micro_batch - (per == Per::MicroBatch ? lag : 0);
    const int index = per == Per::Chunk ? (lane.now.time.empty() ? 0 : lane.now.time.back()) - lag : each - 1;
    return batch < 0 || index < 0 ? -1 : batch * each + index;
  }

  /// True if the signal is raised, by all ranks if it is a group's signal.
  bool is_raised(const Lane& lane, const Wait& wait) const {
    const Signal& signal = plan_.signals[wait.signal.index];
    const int at = element(lane, wait.per, signal, wait.lag);
    if (at < 0) return true;
    if (signal.axes.empty()) return raised_.contains({wait.signal.index, lane.rank, at});
    for (int rank : group(signal.place, signal.axes, lane.rank))
      if (!raised_.contains({wait.signal.index, rank, at})) return false;
    return true;
  }

  const Lane& lane_of(int rank, int stream) const {
    return lanes_[static_cast<size_t>(rank) * plan_.streams.size() + static_cast<size_t>(stream)];
  }
  Lane& lane_of(int rank, int stream) {
    return lanes_[static_cast<size_t>(rank) * plan_.streams.size() + static_cast<size_t>(stream)];
  }

  bool waits_over(const Lane& lane) const {
    const auto& waits = lane.step().waits;
    return std::all_of(waits.begin(), waits.end(), [&](const Wait& w) { return is_raised(lane, w); });
  }

  /// True if the lane is at this collective with the same group and waits for nothing else.
  bool is_at_collective(const Lane& lane, const std::vector<int>& ranks) const {
    const auto* what = lane.done ? nullptr : std::get_if<CollectiveStep>(&lane.step().what);
    return what && what->kind != OpKind::ShardSlice && group(what->place, what->axes, lane.rank) == ranks &&
           waits_over(lane);
  }

  /// True if the lane's next step can run now. If several lanes take a step together (branch, collective), one of them
  /// moves all: the first stream of the rank, the first rank of the group.
  bool can_go(const Lane& lane) const {
    const Step& step = lane.step();
    if (lane.inside) return peers_are_inside(lane);
    if (is_control(step)) {
      for (int s = 0; s < static_cast<int>(plan_.streams.size()); ++s) {
        const Lane& other = lane_of(lane.rank, s);
        if (other.done || &other.step() != &step) return false;
      }
      return lane.stream == 0;  // stream 0 moves all of them
    }
    if (!waits_over(lane)) return false;
    if (const auto* what = std::get_if<CollectiveStep>(&step.what); what && what->kind != OpKind::ShardSlice) {
      const std::vector<int> ranks = group(what->place, what->axes, lane.rank);
      if (ranks.front() != lane.rank) return false;  // the first rank of the group moves all
      return std::all_of(ranks.begin(), ranks.end(),
                         [&](int r) { return is_at_collective(lane_of(r, lane.stream), ranks); });
    }
    if (const auto* recv = std::get_if<RecvStep>(&step.what)) {
      for (const Message& m : plan_.transfers[static_cast<size_t>(recv->transfer)].messages)
        if (m.to == lane.rank && !sent_.contains({recv->transfer, lane.now.micro_batch, m.from})) return false;
    }
    return true;
  }

  /// A kernel over the peer table ends when all its ranks have done their part, a send when every receiver has pulled.
  bool peers_are_inside(const Lane& lane) const {
    if (const auto* send = std::get_if<SendStep>(&lane.step().what)) {
      for (const Message& m : plan_.transfers[static_cast<size_t>(send->transfer)].messages)
        if (m.from == lane.rank && !pulled_.contains({send->transfer, lane.now.micro_batch, m.to})) return false;
      return true;
    }
    for (int rank : group(kernel_place(lane.step()), barrier_axes(plan_, lane.step()), lane.rank)) {
      const Lane& other = lane_of(rank, lane.stream);
      const bool left = met_.contains({&lane.step(), rank, lane.now.micro_batch, lane.now.time});
      if (!left && (other.done || !other.inside || &other.step() != &lane.step() || other.now.time != lane.now.time))
        return false;
    }
    return true;
  }

  PlaceId kernel_place(const Step& step) const { return plan_.kernel(std::get<LaunchStep>(step.what).kernel).place; }
  std::vector<int> group(PlaceId place, const std::vector<int>& axes, int rank) const {
    return rank_group(plan_.places[place.index], axes, rank);
  }

  /// Runs the step. A kernel over the peer table and a send stay inside until their peers have done their part.
  void go(Lane& lane) {
    const Step& step = lane.step();
    if (lane.inside) return finish(lane);
    if (is_control(step)) return branch(lane, step);
    if (const auto* what = std::get_if<CollectiveStep>(&step.what)) return exchange(lane, *what);
    if (const auto* what = std::get_if<LaunchStep>(&step.what)) machine_.launch(lane.rank, *what, lane.now);
    if (const auto* what = std::get_if<CopyStep>(&step.what)) machine_.copy(lane.rank, *what, step.accesses, lane.now);
    if (const auto* what = std::get_if<RecvStep>(&step.what)) {
      machine_.pull(lane.rank, plan_.transfers[static_cast<size_t>(what->transfer)], lane.now);
      pulled_.insert({what->transfer, lane.now.micro_batch, lane.rank});
    }
    const auto* send = std::get_if<SendStep>(&step.what);
    if (send) sent_.insert({send->transfer, lane.now.micro_batch, lane.rank});
    if (send || !barrier_axes(plan_, step).empty())
      lane.inside = true;
    else
      finish(lane);
  }

  /// Raises the step's signals and moves on.
  void finish(Lane& lane) {
    const Step& step = lane.step();
    if (lane.inside && !barrier_axes(plan_, step).empty())
      met_.insert({&step, lane.rank, lane.now.micro_batch, lane.now.time});
    lane.inside = false;
    raise(lane, step);
    ++lane.levels.back().at;
    settle(lane);
  }

  /// Marks the signals of a step as raised.
  void raise(const Lane& lane, const Step& step) {
    for (const Raise& raise : step.raises)
      raised_.insert({raise.signal.index, lane.rank, element(lane, raise.per, plan_.signals[raise.signal.index], 0)});
  }

  /// Runs a collective for all ranks of its group at once; an error if they are at different steps.
  void exchange(Lane& lane, const CollectiveStep& what) {
    if (what.kind == OpKind::ShardSlice) {
      machine_.exchange({lane.rank}, what, lane.now);
      return finish(lane);
    }
    const std::vector<int> ranks = group(what.place, what.axes, lane.rank);
    for (int rank : ranks) {
      const Lane& other = lane_of(rank, lane.stream);
      if (&other.step() != &lane.step() || other.now.time != lane.now.time) {
        machine_.error =
            format("rank {} calls '{}' where rank {} calls '{}'", rank, other.step().name, lane.rank, lane.step().name);
        return;
      }
    }
    machine_.exchange(ranks, what, lane.now);
    for (int rank : ranks) finish(lane_of(rank, lane.stream));
  }

  /// All lanes of the rank take the same branch, or continue for one more trip.
  void branch(Lane& lane, const Step& step) {
    const std::vector<Step>* taken = nullptr;
    if (const auto* what = std::get_if<IfStep>(&step.what))
      taken = machine_.number(lane.rank, what->condition, lane.now) ? &what->then_body : &what->else_body;
    else
      taken = go_on(lane, step, std::get<LoopStep>(step.what));
    for (int s = 0; s < static_cast<int>(plan_.streams.size()); ++s) {
      Lane& other = lane_of(lane.rank, s);
      if (taken) {
        other.levels.push_back({taken, &step, 0, 1, 0});
      } else {
        other.trips.erase(&step);
        if (other.stream == step.stream) raise(other, step);
        ++other.levels.back().at;
      }
      other.now.trip = trip_of(other);
      settle(other);
    }
  }

  /// The iteration number over all enclosing Loops, which random ops use.
  static int64_t trip_of(Lane& lane) {
    uint32_t number = 0;
    for (const Level& level : lane.levels)
      if (level.owner && std::holds_alternative<LoopStep>(level.owner->what))
        number = trip_within(number, lane.trips[level.owner]);
    return number;
  }

  /// The body for one more iteration, or null at the end of the Loop. With shared rows, some rows go through all
  /// iterations before the others. The seed decides how many, and the order of blocks; results must not depend on it.
  const std::vector<Step>* go_on(Lane& lane, const Step& step, const LoopStep& loop) {
    if (!loop.rows) return next_trip(lane, lane.trips[&step], loop);
    std::vector<PlanMachine::RowPart>& left = parts_[{lane.rank, &step}];
    if (!lane.now.rows.of) {
      left = parts_of(*loop.rows, machine_.lengths_of(lane.rank));
      if (left.empty()) return nullptr;
      take_part(lane, left);
    }
    const std::vector<Step>* body = next_trip(lane, lane.trips[&step], loop);
    if (!body && !left.empty()) {
      take_part(lane, left);
      for (Lane& other : lanes_)
        if (other.rank == lane.rank) other.trips.erase(&step);
      body = next_trip(lane, 0, loop);
    }
    if (!body) take_rows(lane, {});
    return body;
  }

  /// All blocks, or two parts, in random order.
  std::vector<PlanMachine::RowPart> parts_of(const SharedRows& rows, const std::map<std::string, int64_t>& lengths) {
    std::vector<PlanMachine::RowPart> parts{{&rows, {}, {}, lengths}};
    for (const RowAxis& axis : rows.axes) {
      const int64_t all = *number_of(axis.count, lengths);
      const int64_t block = axis.block ? axis.block : 1 + static_cast<int64_t>(roll(static_cast<size_t>(all)));
      std::vector<PlanMachine::RowPart> cut;
      for (const PlanMachine::RowPart& part : parts)
        for (int64_t first = 0; first < all;) {
          cut.push_back(part);
          const int64_t left = all - first;
          const int64_t count = axis.block || first == 0 ? std::min(block, left) : left;
          cut.back().first.push_back(first), cut.back().count.push_back(count);
          first += count;
        }
      parts = std::move(cut);
    }
    for (size_t i = parts.size(); i > 1; --i) std::swap(parts[i - 1], parts[static_cast<size_t>(roll(i))]);
    return parts;
  }

  void take_part(const Lane& lane, std::vector<PlanMachine::RowPart>& left) {
    take_rows(lane, left.back());
    left.pop_back();
  }

  void take_rows(const Lane& lane, const PlanMachine::RowPart& part) {
    for (Lane& other : lanes_)
      if (other.rank == lane.rank) other.now.rows = part;
  }

  /// The body for one more iteration, or null at the end of the Loop.
  const std::vector<Step>* next_trip(const Lane& lane, int64_t trip, const LoopStep& loop) {
    if (loop.trip_count && trip >= machine_.number(lane.rank, loop.trip_count, lane.now)) return nullptr;
    if (!loop.trip_count && loop.max_trips && trip >= loop.max_trips) return nullptr;
    if (loop.condition && !machine_.number(lane.rank, loop.condition, lane.now)) return nullptr;
    if (loop.iteration) machine_.put_number(lane.rank, loop.iteration, trip, lane.now);
    return &loop.body;
  }

  const Plan& plan_;
  PlanMachine machine_;
  uint32_t random_;
  std::vector<Lane> lanes_;
  std::map<std::pair<int, const Step*>, std::vector<PlanMachine::RowPart>> parts_;  // shared rows that are still to run
  std::set<std::tuple<uint32_t, int, int>> raised_;                                 // signal, rank, element
  std::set<std::tuple<int, int, int>> sent_, pulled_;                               // transfer, micro-batch, rank
  std::set<std::tuple<const Step*, int, int, Coordinates>> met_;
};

}  // namespace

PlanRun evaluate_plan(const Plan& plan, const std::vector<Tensor>& inputs, uint32_t seed, int64_t invocation) {
  // A wrong Plan may give a kernel lengths that do not fit.
  try {
    return PlanInterpreter(plan, seed, invocation).run(inputs);
  } catch (const InternalError& error) {
    return {{}, {}, error.what()};
  }
}

}  // namespace weftc

// Expands a Plan into events and a partial order of them. A node is the begin or end of an event; edges are a stream's
// order, signals, collectives and transfers. Vector clocks then answer "is a complete before b begins" at once:
//
//   clock[b][stream] = how much of that stream is complete when b begins;  a before b  iff  clock[b][a's stream] >= a's
//   number
#include "ir/plan_events.h"

#include <algorithm>
#include <set>

#include "ir/base/check.h"
#include "ir/plan_walk.h"

namespace weftc {

namespace {
constexpr int64_t kLoopTrips = 3;  // deepest buffer + 1
// At least two trips are expanded, so that dependencies between trips show.
constexpr int64_t kLeastTrips = 2;
}  // namespace

int Event::element(Per per, int each, int lag) const {
  const int index = per == Per::Chunk ? chunks.back() : each - 1;
  const int batch = per == Per::MicroBatch ? micro_batch - lag : micro_batch;
  const int in_batch = per == Per::Chunk ? index - lag : index;
  return batch < 0 || in_batch < 0 ? -1 : batch * each + in_batch;
}

PlanEvents::PlanEvents(const Plan& p, bool second_branch) : plan(p), second_branch_(second_branch) {
  lanes_ = plan.world * static_cast<int>(plan.streams.size());
  lane_events_.resize(lanes_);
  for (uint32_t place = 0; place < plan.places.size(); ++place)
    for (size_t i = 0; i < plan.places[place].ranks.size(); ++i)
      coordinates_[{place, plan.places[place].ranks[i]}] = coordinates_of(plan.places[place].mesh, static_cast<int>(i));
  for (int rank = 0; rank < plan.world; ++rank) expand_rank(rank);
  join_collectives();
  join_transfers();
  order_lanes();
  connect_signals();
  sort();
  if (static_cast<int>(order.size()) == nodes) run_clocks();
}

const Coordinates& PlanEvents::coordinates(PlaceId place, int rank) const {
  return coordinates_.at({place.index, rank});
}

int PlanEvents::add_node() {
  successors_.emplace_back();
  predecessors_.push_back(0);
  places_.emplace_back();
  return nodes++;
}

void PlanEvents::add_edge(int from, int to) {
  if (from == to) return;
  successors_[from].push_back(to);
  ++predecessors_[to];
}

/// The blocks that the rank takes part in, in the pipeline's order.
void PlanEvents::expand_rank(int rank) {
  for (const OrderedBlock& entry : plan.order) {
    const Block& block = plan.blocks[entry.block];
    if (!plan.places[block.place.index].holds(rank)) continue;
    Event at;
    at.rank = rank;
    at.micro_batch = entry.micro_batch;
    if (plan.micro_batches > 1) at.chunks.push_back(entry.micro_batch);
    expand(block.steps, at);
  }
}

/// A For's chunks come one after another; a Loop is expanded a few times, because three iterations show all that later
/// ones repeat.
void PlanEvents::expand(const std::vector<Step>& steps, Event at) {
  for (const Step& step : steps) {
    if (const auto* loop = std::get_if<ForStep>(&step.what)) {
      at.chunks.push_back(0);
      for (int c = 0; c < loop->trips; ++c) at.chunks.back() = c, expand(loop->body, at);
      at.chunks.pop_back();
      continue;
    }
    const auto* loop = std::get_if<LoopStep>(&step.what);
    const auto* branch = std::get_if<IfStep>(&step.what);
    if (loop) {
      expand_trips(step, *loop, at);
      continue;
    }
    add_event(step, at, true, !branch);
    if (branch) {
      expand(second_branch_ ? branch->else_body : branch->then_body, at);
      add_event(step, at, false, true);
    }
  }
}

/// Expands a loop: it reads its condition and count before each trip and after the last one, and writes the iteration.
void PlanEvents::expand_trips(const Step& step, const LoopStep& loop, Event at) {
  const int64_t trips = loop.is_chain()  ? 1
                        : loop.max_trips ? std::clamp(loop.max_trips, kLeastTrips, kLoopTrips)
                                         : kLoopTrips;
  at.trips.push_back({&loop, 0, false});
  add_event(step, at, true, false);
  for (int t = 0; t < trips; ++t) {
    at.trips.back() = {&loop, t, t + 1 == trips};
    expand(loop.body, at);
    at.trips.back().number = t + 1;
    add_event(step, at, true, t + 1 == trips);
  }
}

void PlanEvents::add_event(const Step& step, Event at, bool touches, bool raises) {
  at.step = &step;
  at.touches = touches, at.raises = raises;
  at.lane = at.rank * static_cast<int>(plan.streams.size()) + step.stream;
  lane_events_[at.lane].push_back(static_cast<int>(events.size()));
  events.push_back(std::move(at));
}

/// Joins the calls of a collective: the k-th call of each rank of a group on one stream must be the same step.
/// Peer kernels are joined at their ends, where they have a barrier.
void PlanEvents::join_collectives() {
  struct Barrier {
    const Event* first;
    int node;
    std::set<int> missing;
  };
  std::map<std::pair<std::vector<int>, int>, std::vector<Barrier>> meetings;  // by group and stream
  std::map<std::tuple<std::vector<int>, int, int>, size_t> calls;             // of a rank
  for (Event& event : events) {
    const auto* what = std::get_if<CollectiveStep>(&event.step->what);
    const bool joins = what && what->kind != OpKind::ShardSlice;
    const std::vector<int> axes = joins ? what->axes : barrier_axes(plan, *event.step);
    event.start = event.end = -1;
    if (!joins) event.start = add_node();
    if (axes.empty()) {
      if (joins) violate("'" + event.step->name + "' joins no ranks"), event.start = add_node();
      event.end = event.start;
      continue;
    }
    const PlaceId place = joins ? what->place : plan.kernel(std::get<LaunchStep>(event.step->what).kernel).place;
    const std::vector<int> ranks = rank_group(plan.places[place.index], axes, event.rank);
    auto& list = meetings[{ranks, event.step->stream}];
    const size_t k = calls[{ranks, event.step->stream, event.rank}]++;
    if (k == list.size()) list.push_back({&event, add_node(), {ranks.begin(), ranks.end()}});
    Barrier& meeting = list[k];
    meeting.missing.erase(event.rank);
    if (meeting.first->step != event.step || meeting.first->chunks != event.chunks ||
        meeting.first->micro_batch != event.micro_batch)
      violate(format("rank {} calls '{}' where rank {} calls '{}'", event.rank, event.step->name, meeting.first->rank,
                     meeting.first->step->name));
    event.end = meeting.node;
    if (joins)
      event.start = event.end;
    else
      add_edge(event.start, event.end);
  }
  for (const auto& entry : meetings)
    for (const Barrier& meeting : entry.second)
      for (int rank : meeting.missing) violate(format("rank {} never comes to '{}'", rank, meeting.first->step->name));
}

/// A send begins when its source is ready and ends when all its receivers are done.
void PlanEvents::join_transfers() {
  std::map<std::tuple<int, int, int>, Event*> sends, recvs;  // by table, micro-batch, rank
  for (Event& event : events) {
    if (const auto* send = std::get_if<SendStep>(&event.step->what)) {
      event.end = add_node();
      add_edge(event.start, event.end);
      sends[{send->transfer, event.micro_batch, event.rank}] = &event;
    }
    if (const auto* recv = std::get_if<RecvStep>(&event.step->what))
      recvs[{recv->transfer, event.micro_batch, event.rank}] = &event;
  }
  for (const auto& [key, recv] : recvs) {
    const auto [table, micro_batch, rank] = key;
    std::set<int> from;
    for (const Message& m : plan.transfers[table].messages)
      if (m.to == rank) from.insert(m.from);
    for (int sender : from) {
      const auto at = sends.find({table, micro_batch, sender});
      if (at == sends.end()) {
        violate(format("rank {} receives '{}' from rank {}, which does not send it", rank, plan.transfers[table].name,
                       sender));
        continue;
      }
      add_edge(at->second->start, recv->start);
      add_edge(recv->end, at->second->end);
    }
  }
  for (const auto& [key, send] : sends)
    for (const Message& m : plan.transfers[std::get<0>(key)].messages)
      if (m.from == send->rank && !recvs.contains({std::get<0>(key), std::get<1>(key), m.to}))
        violate(format("rank {} sends '{}' to rank {}, which does not receive it", m.from,
                       plan.transfers[std::get<0>(key)].name, m.to));
}

/// Puts edges between neighbours on a stream, and numbers each node on its streams.
void PlanEvents::order_lanes() {
  place_.assign(nodes, {-1, -1});
  for (int lane = 0; lane < lanes_; ++lane) {
    int number = 0, last = -1;
    for (int e : lane_events_[lane]) {
      for (int node : {events[e].start, events[e].end}) {
        if (node == last) continue;
        if (last >= 0 && !(node == events[e].end && events[e].start != node)) add_edge(last, node);
        places_[node].push_back({lane, ++number});
        place_[node] = places_[node].front();
        last = node;
      }
    }
  }
}

/// An edge from each signal to each wait for it, by element and rank; a wait that nothing answers is a
/// violation.
void PlanEvents::connect_signals() {
  const auto each = [&](SignalId id) { return plan.signals[id.index].count / std::max(1, plan.micro_batches); };
  std::map<std::tuple<uint32_t, int, int>, int> raised;  // signal, rank, element -> node
  for (const Event& event : events)
    for (const Raise& raise : event.step->raises) {
      if (!event.raises) continue;
      const int element = event.element(raise.per, each(raise.signal), 0);
      if (!raised.insert({{raise.signal.index, event.rank, element}, event.end}).second)
        violate(format("'{}' raises element {} of '{}' again", event.step->name, element,
                       plan.signals[raise.signal.index].name));
    }
  for (const Event& event : events)
    for (const Wait& wait : event.step->waits) {
      const Signal& signal = plan.signals[wait.signal.index];
      const int element = event.element(wait.per, each(wait.signal), wait.lag);
      if (element < 0) continue;
      const std::vector<int> ranks = signal.axes.empty()
                                         ? std::vector<int>{event.rank}
                                         : rank_group(plan.places[signal.place.index], signal.axes, event.rank);
      for (int rank : ranks) {
        const auto at = raised.find({wait.signal.index, rank, element});
        if (at != raised.end())
          add_edge(at->second, event.start);
        else
          violate(format("'{}' on rank {} waits for element {} of '{}', which rank {} never raises", event.step->name,
                         event.rank, element, signal.name, rank));
      }
    }
}

/// A topological order; it is short of nodes if there is a cycle.
void PlanEvents::sort() {
  std::vector<int> left = predecessors_, ready;
  for (int n = nodes - 1; n >= 0; --n)
    if (!left[n]) ready.push_back(n);
  while (!ready.empty()) {
    const int n = ready.back();
    ready.pop_back();
    order.push_back(n);
    for (int s : successors_[n])
      if (!--left[s]) ready.push_back(s);
  }
}

std::string PlanEvents::cycle_text() const {
  std::vector<bool> done(nodes, false);
  for (int n : order) done[n] = true;
  // Every node left has a predecessor that is left: walk back until one comes again.
  std::vector<int> before(nodes, -1);
  int at = -1;
  for (int n = 0; n < nodes; ++n)
    for (int s : successors_[n])
      if (!done[n] && !done[s]) before[s] = n, at = s;
  std::vector<int> path;
  std::set<int> seen;
  while (at >= 0 && seen.insert(at).second) path.push_back(at), at = before[at];
  std::vector<std::string> names;
  std::reverse(path.begin(), path.end());
  for (int n : path)
    for (const Event& event : events)
      if (event.start == n || event.end == n) {
        names.push_back(format("'{}' on rank {}", event.step->name, event.rank));
        break;
      }
  if (names.size() > 8) names.resize(8);
  return join(names, " -> ");
}

/// Vector clocks in topological order.
void PlanEvents::run_clocks() {
  const size_t lanes = static_cast<size_t>(lanes_);
  clocks_.assign(static_cast<size_t>(nodes) * lanes, 0);
  for (int n : order) {
    int* own = &clocks_[static_cast<size_t>(n) * lanes];
    for (const auto& [lane, number] : places_[n]) own[lane] = std::max(own[lane], number);
    for (int s : successors_[n]) {
      int* next = &clocks_[static_cast<size_t>(s) * lanes];
      for (size_t lane = 0; lane < lanes; ++lane) next[lane] = std::max(next[lane], own[lane]);
    }
  }
}

}  // namespace weftc

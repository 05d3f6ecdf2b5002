// A Plan expanded for all ranks: events, and their partial order (P6).
//   A rank's streams are lanes: one event after the other. A collective is one node that joins its ranks; a kernel
//   over the peer table starts alone and ends with its ranks; a send ends when its receivers have it. A For is expanded
//   to its trips, a Loop to a few; both branches of an If stand one after the other. An iteration begins and ends with
//   a meeting of all ranks, so that one iteration is enough.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/plan.h"

namespace weftc {

/// A trip of an enclosing Loop. After the last expanded trip, `number` is the number of trips.
struct LoopTrip {
  const LoopStep* loop;
  int number;
  bool is_last;
};

/// One step on one rank, at one point of the enclosing loops.
struct Event {
  const Step* step = nullptr;
  int rank = 0, lane = 0;
  int micro_batch = 0;
  std::vector<int> chunks;  // coordinates of the time axes: the micro-batch if there are several, then enclosing Fors
  std::vector<LoopTrip> trips;  // of the enclosing Loops, and of the step's own Loop
  int start = -1, end = -1;     // nodes
  // A Loop is an event before each trip and one at its end, an If one before and one after its branch. Only the last
  // event raises signals, and the event after a branch touches nothing.
  bool touches = true, raises = true;
  /// The element of a signal with `each` elements a micro-batch that it refers to, `lag` earlier; negative: no element.
  int element(Per per, int each, int lag) const;
};

class PlanEvents {
 public:
  /// Every If takes its first branch, or all take their second.
  PlanEvents(const Plan& plan, bool second_branch);

  const Plan& plan;
  std::vector<Event> events;
  std::vector<std::string> violations;
  /// Nodes in an order in which all predecessors come first; shorter than `nodes` if there is a cycle.
  std::vector<int> order;
  int nodes = 0;

  /// True if node a is complete before node b begins.
  bool before(int a, int b) const { return a != b && clock_of(b, place_[a].first) >= place_[a].second; }
  /// Nodes that wait for `node` directly; some occur twice.
  const std::vector<int>& successors(int node) const { return successors_[node]; }
  const Coordinates& coordinates(PlaceId place, int rank) const;
  /// Steps that wait for each other.
  std::string cycle_text() const;

 private:
  void expand_rank(int rank);
  void expand(const std::vector<Step>& steps, Event at);
  void expand_trips(const Step& step, const LoopStep& loop, Event at);
  void add_event(const Step& step, Event at, bool touches = true, bool raises = true);
  void order_lanes();
  void join_collectives();
  void join_transfers();
  void connect_signals();
  void sort();
  void run_clocks();
  int add_node();
  void add_edge(int from, int to);
  int clock_of(int node, int lane) const {
    return clocks_[static_cast<size_t>(node) * static_cast<size_t>(lanes_) + static_cast<size_t>(lane)];
  }
  void violate(std::string text) { violations.push_back(std::move(text)); }

  const bool second_branch_;
  int lanes_ = 0;
  std::vector<std::vector<int>> lane_events_;
  std::vector<std::vector<int>> successors_;
  std::vector<int> predecessors_;                         // how many
  std::vector<std::pair<int, int>> place_;                // of a node: a lane, its number there
  std::vector<std::vector<std::pair<int, int>>> places_;  // of a node: all of them
  std::vector<int> clocks_;
  std::map<std::pair<uint32_t, int>, Coordinates> coordinates_;  // by place and rank
};

}  // namespace weftc

// Predicts a timeline from the events of the proof, by a longest-path walk over their dependencies. Each node takes the
// time of the cost model.
#include "passes/cost/timeline.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/base/text.h"
#include "ir/plan_events.h"
#include "ir/text/plan_text.h"

namespace weftc {

namespace {

using Intervals = std::vector<std::pair<double, double>>;

/// The length of the union of intervals.
double covered(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end());
  double length = 0, end = 0;
  bool first = true;
  for (const auto& [from, to] : intervals) {
    const double begin = first ? from : std::max(from, end);
    if (to > begin) length += to - begin;
    end = first ? to : std::max(end, to);
    first = false;
  }
  return length;
}

/// True for steps that exchange data with other ranks.
bool communicates(const Plan& plan, const Step& step) {
  if (const auto* launch = std::get_if<LaunchStep>(&step.what))
    return plan.kernel(launch->kernel).category == Category::Collective;
  if (const auto* collective = std::get_if<CollectiveStep>(&step.what)) return collective->kind != OpKind::ShardSlice;
  return std::holds_alternative<SendStep>(step.what) || std::holds_alternative<RecvStep>(step.what);
}

std::string nodes_of(const Plan& plan, const Step& step) {
  std::vector<std::string> names;
  for (const OriginId id : step.origins) names.push_back(plan.origins[id.index].name);
  return join(names, ", ");
}

/// Which chunk and micro-batch an event is.
std::string place_in_loops(const Plan& plan, const Event& event) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < event.chunks.size(); ++i)
    parts.push_back(format("{} {}", plan.micro_batches > 1 && i == 0 ? "micro-batch" : "chunk", event.chunks[i]));
  return join(parts, ", ");
}

/// Steps that are part of one kernel for all chunks of their loop.
void collect_fused(const Plan& plan, const std::vector<Step>& steps, Mechanism mechanism,
                   std::set<const Step*>& fused) {
  for (const Step& step : steps) {
    const bool computes = !communicates(plan, step);
    if (mechanism == Mechanism::Fused || (mechanism == Mechanism::Signal && computes)) fused.insert(&step);
    if (const auto* loop = std::get_if<ForStep>(&step.what)) collect_fused(plan, loop->body, loop->mechanism, fused);
    if (const auto* loop = std::get_if<LoopStep>(&step.what))
      collect_fused(plan, loop->body, Mechanism::Streams, fused);
    if (const auto* branch = std::get_if<IfStep>(&step.what))
      for (const auto* body : {&branch->then_body, &branch->else_body})
        collect_fused(plan, *body, Mechanism::Streams, fused);
  }
}

class Prediction {
 public:
  Prediction(const Plan& plan, const CostModel& model) : plan_(plan), model_(model), events_(plan, false) {
    for (const Block& block : plan.blocks) collect_fused(plan, block.steps, Mechanism::Streams, fused_);
  }

  Timeline run() {
    name_lanes();
    cost_events();
    walk();
    for (size_t e = 0; e < events_.events.size(); ++e) draw(static_cast<int>(e));
    sort_boxes();
    note_waits();
    mark_critical();
    for (NodeBox& drawn : drawn_) line_.boxes.push_back(std::move(drawn.box));
    note_limits();
    return std::move(line_);
  }

 private:
  struct Moment {
    double begin = 0, end = 0;
    int awaited = -1;  // the node that ended last of all that it follows
  };
  struct NodeBox {
    TimelineBox box;
    int first, last;  // nodes: the one that it waited for, and the one with which it ends
  };

  void name_lanes();
  void cost_events();
  void walk();
  void draw(int event);
  void sort_boxes();
  int awaited_box(int node) const;
  void note_waits();
  void mark_critical();
  void note_limits();
  int step_number(const Event& event, const StepCost& cost);

  const Plan& plan_;
  const CostModel& model_;
  const PlanEvents events_;
  Timeline line_;
  std::vector<double> seconds_;  // by node
  std::vector<Moment> moments_;  // by node
  std::vector<StepCost> costs_;  // by event
  std::vector<NodeBox> drawn_;
  std::vector<int> box_of_node_;  // the box that ends with it; -1: no box does
  std::map<const Step*, int> numbers_;
  std::set<const Step*> fused_;
};

void Prediction::name_lanes() {
  line_.title = plan_.name;
  for (int rank = 0; rank < plan_.world; ++rank)
    for (const std::string& stream : plan_.streams) line_.lanes.push_back({rank, stream});
}

/// Gives each node its time. Ranks that meet take as long as the slowest of them; a message is sent while it is
/// received, so a recv takes the longer of both.
void Prediction::cost_events() {
  seconds_.assign(static_cast<size_t>(events_.nodes), 0);
  std::map<std::pair<int, int>, double> sent;  // the longest of a transfer and micro-batch
  for (const Event& event : events_.events) {
    const bool fused = fused_.contains(event.step);
    costs_.push_back(model_.of(*event.step, event.rank, fused));
    // The first chunk began the kernel.
    if (fused && event.chunks.back() > 0) costs_.back().seconds -= model_.ceilings().step;
    if (const auto* send = std::get_if<SendStep>(&event.step->what)) {
      double& longest = sent[{send->transfer, event.micro_batch}];
      longest = std::max(longest, costs_.back().seconds);
      continue;
    }
    double& seconds = seconds_[static_cast<size_t>(event.end)];
    seconds = std::max(seconds, costs_.back().seconds);
  }
  for (const Event& event : events_.events)
    if (const auto* recv = std::get_if<RecvStep>(&event.step->what)) {
      double& seconds = seconds_[static_cast<size_t>(event.end)];
      seconds = std::max(seconds, sent[{recv->transfer, event.micro_batch}]);
    }
}

/// Begins each node when the last of its predecessors has ended, and notes which one that was.
void Prediction::walk() {
  moments_.resize(static_cast<size_t>(events_.nodes));
  for (const int node : events_.order) {
    Moment& now = moments_[static_cast<size_t>(node)];
    now.end = now.begin + seconds_[static_cast<size_t>(node)];
    line_.seconds = std::max(line_.seconds, now.end);
    for (const int next : events_.successors(node)) {
      Moment& later = moments_[static_cast<size_t>(next)];
      if (later.awaited >= 0 && later.begin >= now.end) continue;
      later.begin = std::max(later.begin, now.end);
      later.awaited = node;
    }
  }
}

/// The step of an event in the timeline's table, with the cost of its fullest rank.
int Prediction::step_number(const Event& event, const StepCost& cost) {
  const auto [at, is_new] = numbers_.insert({event.step, static_cast<int>(line_.steps.size())});
  if (is_new) {
    const Loc& loc = event.step->transform_loc;
    line_.steps.push_back({event.step->name, step_kind(plan_, *event.step), nodes_of(plan_, *event.step),
                           event.step->transform,
                           loc.kind == Loc::Kind::Text ? format("{}:{}:{}", loc.file, loc.line, loc.column) : "",
                           communicates(plan_, *event.step), true, cost});
  }
  StepCost& known = line_.steps[static_cast<size_t>(at->second)].cost;
  if (cost.seconds > known.seconds) known = cost;
  return at->second;
}

/// Makes a box of an event. A kernel that meets its peers, and a send, first wait alone: their work is drawn
/// last.
void Prediction::draw(int number) {
  const Event& event = events_.events[static_cast<size_t>(number)];
  const StepCost& cost = costs_[static_cast<size_t>(number)];
  const bool sends = std::holds_alternative<SendStep>(event.step->what);
  if (cost.seconds <= 0 || (sends && cost.work.link_bytes == 0)) return;
  const Moment& end = moments_[static_cast<size_t>(event.end)];
  TimelineBox box;
  box.lane = event.lane;
  box.step = step_number(event, cost);
  box.begin = sends ? end.end - cost.seconds : end.begin;
  box.end = end.end;
  box.at = place_in_loops(plan_, event);
  drawn_.push_back({std::move(box), sends ? event.start : event.end, event.end});
}

/// By lane and time: two steps of one lane never run at once.
void Prediction::sort_boxes() {
  std::stable_sort(drawn_.begin(), drawn_.end(), [](const NodeBox& a, const NodeBox& b) {
    return std::pair(a.box.lane, a.box.begin) < std::pair(b.box.lane, b.box.begin);
  });
  box_of_node_.assign(static_cast<size_t>(events_.nodes), -1);
  for (size_t i = 0; i < drawn_.size(); ++i) box_of_node_[static_cast<size_t>(drawn_[i].last)] = static_cast<int>(i);
}

/// The box of the timeline that a node waited for longest; -1 if it waited for no box. From a node that is not drawn
/// (such as the begin of a kernel that meets its peers), goes on to the node that it waited for itself.
int Prediction::awaited_box(int node) const {
  do node = moments_[static_cast<size_t>(node)].awaited;
  while (node >= 0 && box_of_node_[static_cast<size_t>(node)] < 0);
  return node < 0 ? -1 : box_of_node_[static_cast<size_t>(node)];
}

/// For each box, when its stream was free, and for which box of another stream it waited.
void Prediction::note_waits() {
  for (size_t i = 0; i < drawn_.size(); ++i) {
    TimelineBox& box = drawn_[i].box;
    const bool follows = i > 0 && drawn_[i - 1].box.lane == box.lane;
    box.ready = std::min(box.begin, follows ? drawn_[i - 1].box.end : 0);
    const int other = awaited_box(drawn_[i].first);
    const bool waited = other >= 0 && box.begin > box.ready;
    if (waited && drawn_[static_cast<size_t>(other)].box.lane != box.lane) box.awaited = other;
  }
}

/// Marks the critical chain: from the node that ends last, back over the node that each waited for.
void Prediction::mark_critical() {
  const auto ends_earlier = [&](int a, int b) {
    return moments_[static_cast<size_t>(a)].end < moments_[static_cast<size_t>(b)].end;
  };
  if (events_.order.empty()) return;
  std::vector<bool> critical(static_cast<size_t>(events_.nodes), false);
  int node = *std::max_element(events_.order.begin(), events_.order.end(), ends_earlier);
  for (; node >= 0; node = moments_[static_cast<size_t>(node)].awaited) critical[static_cast<size_t>(node)] = true;
  for (NodeBox& drawn : drawn_) drawn.box.critical = critical[static_cast<size_t>(drawn.last)];
}

/// Says where the prediction counts less than a run would.
void Prediction::note_limits() {
  bool loops = false, branches = false;
  for (const Event& event : events_.events) {
    loops |= std::holds_alternative<LoopStep>(event.step->what);
    branches |= std::holds_alternative<IfStep>(event.step->what);
  }
  if (loops) line_.notes.push_back("a loop counts with the few trips that its proof takes");
  if (branches) line_.notes.push_back("an If counts with its first branch");
}

}  // namespace

double BusyTimes::hidden() const {
  const double shorter = std::min(computation, communication);
  // Sums of times may differ in their last bits.
  return shorter > 0 ? std::max(0., communication + computation - both) / shorter : 0;
}

std::vector<BusyTimes> busy_times(const Timeline& timeline) {
  struct OfRank {
    Intervals computation, communication, both;
  };
  std::vector<OfRank> ranks;
  for (const TimelineLane& lane : timeline.lanes)
    ranks.resize(std::max(ranks.size(), static_cast<size_t>(lane.rank) + 1));
  for (const TimelineBox& box : timeline.boxes) {
    const auto rank = static_cast<size_t>(timeline.lanes[static_cast<size_t>(box.lane)].rank);
    const bool communicates = timeline.steps[static_cast<size_t>(box.step)].communicates;
    (communicates ? ranks[rank].communication : ranks[rank].computation).push_back({box.begin, box.end});
    ranks[rank].both.push_back({box.begin, box.end});
  }
  std::vector<BusyTimes> times;
  for (OfRank& rank : ranks)
    times.push_back(
        {covered(std::move(rank.computation)), covered(std::move(rank.communication)), covered(std::move(rank.both))});
  return times;
}

BusyTimes mean_times(const std::vector<BusyTimes>& ranks) {
  BusyTimes mean;
  const double n = static_cast<double>(std::max<size_t>(1, ranks.size()));
  for (const BusyTimes& rank : ranks) {
    mean.computation += rank.computation / n;
    mean.communication += rank.communication / n;
    mean.both += rank.both / n;
  }
  return mean;
}

Timeline predict_timeline(const Plan& plan, const CostModel& model) { return Prediction(plan, model).run(); }

}  // namespace weftc

// A choice is a smallest cut under a price of memory: `bytes kept * price + recomputed operations`. At a price of 0 all
// is kept. The choices for all prices lie on a convex curve; the next choice between two of them is at the price at
// which both cost the same. The bytes alone do not say when they are held. If nothing is kept, the first derivative
// recomputes the whole forward pass, and all of it is in memory once more. So each choice is followed through both
// passes, and those that take more memory than a cheaper one are left out.
#include "passes/prepare/kept_choices.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/op_def.h"
#include "passes/cost/cost_model.h"
#include "passes/prepare/smallest_kept.h"

namespace weftc {

namespace {

constexpr size_t kMostCuts = 32;  // each takes time that grows with the square of the graph

/// Operations that a byte from or to memory takes as long as: the ratio of a core with AVX-512 (passes/cost).
constexpr double kOperationsOfByte = 10;

/// The largest discount for an op that is made early. Among ops of equal cost, early ones are recomputed first: when
/// the backward pass reaches them, the values kept for later ones are gone.
constexpr double kEarlyDiscount = 1.0 / 16;

/// The cost of an operation per element, as the cost model counts it for a polynomial.
double operations_of(ScalarCost cost) {
  switch (cost) {
    case ScalarCost::Cheap:
      return 1;
    case ScalarCost::Moderate:
      return 10;
    case ScalarCost::Function:
      return 50;
  }
  return 0;
}

/// Operations of a forward op, plus the equivalent of its bytes. Chains of pointwise ops are computed where they are
/// read: in memory nothing comes of them.
double operations_of(const Module& module, OpId id) {
  const Graph& graph = module.graph;
  const Op& op = graph.op(id);
  if (is_shown(graph, op.outputs[0])) return 0;
  if (category(op) == Category::Pointwise)
    return static_cast<double>(graph.type(op.outputs[0]).count()) * operations_of(op_def(op).cost);
  int64_t bytes = 0;
  for (const std::vector<ValueId>* values : {&op.inputs, &op.outputs})
    for (const ValueId v : *values)
      if (v) bytes += bytes_of(graph, v);
  const double moving = static_cast<double>(bytes) * kOperationsOfByte;
  return category(op) == Category::Contraction ? moving + operations_alone(module, graph, op, 1) : moving;
}

/// The cost of each op, in operations.
class Costs {
 public:
  Costs(const Module& module, const TrainingPasses& passes)
      : costs_(module.graph.op_capacity(), 0), discounted_(module.graph.op_capacity(), 0) {
    std::vector<OpId> ops;
    for (const OpId id : module.graph.order())
      if (passes.is_forward(id) && !is_given(module.graph.op(id))) ops.push_back(id);
    for (size_t i = 0; i < ops.size(); ++i) {
      const double cost = operations_of(module, ops[i]), before = double(i) / double(ops.size());
      costs_[ops[i].index] = cost, discounted_[ops[i].index] = cost * (1 - kEarlyDiscount * (1 - before));
      total_ += cost;
    }
  }

  double of(OpId id) const { return costs_[id.index]; }
  double discounted(OpId id) const { return discounted_[id.index]; }
  double total() const { return total_; }

 private:
  std::vector<double> costs_, discounted_;  // by op
  double total_ = 0;
};

/// Follows the results of the forward pass, both original and recomputed, through the order of the graph. Derivatives
/// are about the same whatever is kept.
class PeakEstimate {
 public:
  PeakEstimate(const Graph& graph, const TrainingPasses& passes, const KeptValues& kept,
               const std::vector<Again>& again)
      : graph_(graph), passes_(passes), kept_(kept) {
    auto next = again.begin();
    for (const OpId id : graph.order()) {
      for (; next != again.end() && next->reader == id; ++next) events_.push_back({next->op, true});
      events_.push_back({id, false});
    }
  }

  int64_t run() {
    const std::map<Held, size_t> last = last_readers();
    std::vector<int64_t> freed(events_.size(), 0);
    int64_t held = 0, peak = 0;
    for (size_t at = 0; at < events_.size(); ++at) {
      const Op& op = graph_.op(events_[at].op);
      for (const ValueId v : op.outputs) {
        if (!v || !passes_.is_made_forward(graph_, v) || is_shown(graph_, v)) continue;
        const auto reader = last.find({v, events_[at].is_again});
        held += bytes_of(graph_, v);
        freed[reader == last.end() ? at : reader->second] += bytes_of(graph_, v);
      }
      peak = std::max(peak, held);
      held -= freed[at];
    }
    return peak;
  }

 private:
  struct Event {
    OpId op;
    bool is_again;
  };
  using Held = std::pair<ValueId, bool>;  // a value, and whether it is the recomputed copy

  std::map<Held, size_t> last_readers() const {
    std::map<Held, size_t> last;
    for (size_t at = 0; at < events_.size(); ++at)
      for (const ValueId v : graph_.op(events_[at].op).inputs)
        if (v) last[held_for(v, events_[at].is_again || passes_.is_late(events_[at].op))] = at;
    for (const auto& output : graph_.outputs()) last[held_for(output.value, false)] = events_.size() - 1;
    return last;
  }

  /// The value that is held in memory for an op, of the backward pass or not, that reads `v`.
  Held held_for(ValueId v, bool is_backward) const {
    while (is_shown(graph_, v)) v = graph_.producer_op(v).inputs[0];
    return {v, is_backward && !is_there(graph_, passes_, kept_, v)};
  }

  const Graph& graph_;
  const TrainingPasses& passes_;
  const KeptValues& kept_;
  std::vector<Event> events_;
};

/// A cut, with its cost in bytes and in operations.
struct Cut {
  KeptValues kept;
  int64_t bytes = 0;
  double operations = 0, discounted = 0;
  std::vector<Again> again = {};
  bool is_next_known = false;  // no cut lies between this one and the next
};

class ChoiceFinder {
 public:
  explicit ChoiceFinder(const Module& module)
      : module_(module), graph_(module.graph), passes_(module), costs_(module, passes_) {}

  std::vector<KeptChoice> run() {
    std::vector<Cut> cuts = curve();
    cuts.push_back(cut_of(fewest_bytes_kept(graph_, passes_)));
    std::ranges::stable_sort(cuts, {}, &Cut::operations);
    std::vector<KeptChoice> choices;
    for (const Cut& cut : cuts) {
      KeptChoice choice = choice_of(cut);
      if (choices.empty() || choice.peak < choices.back().peak) choices.push_back(std::move(choice));
    }
    return choices;
  }

 private:
  /// Cuts from most bytes to least. The largest gap is looked into first.
  std::vector<Cut> curve() {
    std::vector<Cut> cuts{cut_of(all_read()), cut_at(0, 1)};
    const auto gap = [&](size_t i) { return cuts[i].is_next_known ? 0 : cuts[i].bytes - cuts[i + 1].bytes; };
    for (size_t tried = 2; tried < kMostCuts; ++tried) {
      size_t at = 0;
      for (size_t i = 1; i + 1 < cuts.size(); ++i)
        if (gap(i) > gap(at)) at = i;
      if (gap(at) <= 0) break;
      const double operations = cuts[at + 1].discounted - cuts[at].discounted;
      Cut between = cut_at(operations > 0 ? 1 : 0, operations > 0 ? operations / double(gap(at)) : 1);
      cuts[at].is_next_known = between.bytes >= cuts[at].bytes || between.bytes <= cuts[at + 1].bytes;
      if (!cuts[at].is_next_known) cuts.insert(cuts.begin() + static_cast<long>(at) + 1, std::move(between));
    }
    return cuts;
  }

  /// All values that the backward pass reads; for views, the values that they view.
  KeptValues all_read() const {
    const std::set<ValueId> read = values_across(graph_, passes_);
    return {read.begin(), read.end()};
  }

  /// The cut for given prices of an operation and a byte. Capacities are whole numbers, whose sum stays below the
  /// number that stands for no limit.
  Cut cut_at(double operation, double byte) const {
    int64_t bytes = 0;
    for (const OpId id : graph_.order())
      for (const ValueId v : graph_.op(id).outputs)
        if (passes_.is_made_forward(graph_, v)) bytes += bytes_of(graph_, v);
    const double scale = double(int64_t{1} << 50) / (operation * costs_.total() + byte * double(bytes) + 1);
    // Regions and collectives are not recomputed, nor are ops of unknown cost.
    const auto again = [&](OpId id) {
      if (is_costly(graph_.op(id)) && category(graph_.op(id)) != Category::Contraction) return FlowNetwork::kUnlimited;
      return static_cast<int64_t>(std::llround(costs_.discounted(id) * operation * scale));
    };
    const auto kept = [&](ValueId v) {
      if (is_shown(graph_, v)) return FlowNetwork::kUnlimited;
      return static_cast<int64_t>(std::llround(double(bytes_of(graph_, v)) * byte * scale));
    };
    return cut_of(cheapest_kept(graph_, passes_, {again, kept}));
  }

  Cut cut_of(KeptValues kept) const {
    Cut cut{std::move(kept)};
    for (const ValueId v : cut.kept) cut.bytes += bytes_of(graph_, v);
    cut.again = computed_again(graph_, passes_, cut.kept);
    for (const Again& each : cut.again)
      cut.operations += costs_.of(each.op), cut.discounted += costs_.discounted(each.op);
    return cut;
  }

  KeptChoice choice_of(const Cut& cut) const {
    KeptChoice choice;
    for (const OpId id : graph_.order())
      for (const ValueId v : graph_.op(id).outputs)
        if (cut.kept.contains(v)) choice.kept.push_back(graph_.value(v).name);
    choice.bytes = cut.bytes;
    choice.again = costs_.total() > 0 ? cut.operations / costs_.total() : 0;
    choice.peak = PeakEstimate(graph_, passes_, cut.kept, cut.again).run();
    return choice;
  }

  const Module& module_;
  const Graph& graph_;
  const TrainingPasses passes_;
  const Costs costs_;
};

}  // namespace

std::vector<KeptChoice> kept_choices(const Module& module) { return ChoiceFinder(module).run(); }

}  // namespace weftc

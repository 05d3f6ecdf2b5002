// The work that a training does once, after the micro-batches: finds the stage in which the update of a parameter runs,
// and where gradients and losses of several stages are added up.
#include <algorithm>
#include <set>

#include "ir/op_def.h"
#include "passes/prepare/stages.h"

namespace weftc {

/// Finds sums of losses, made once after the micro-batches. As a part of a stage, they would make it wait for the
/// others.
void Stages::find_totals() {
  const auto is_number = [&](ValueId v) { return v && graph_.type(v).count() == 1; };
  for (const OpId id : graph_.order()) {
    const Op& op = graph_.op(id);
    if (!is_figure_[id.index] || !op.regions.empty() || !std::ranges::all_of(op.outputs, is_number)) continue;
    is_total_[id.index] = std::ranges::all_of(op.inputs, is_number) && std::ranges::any_of(op.inputs, [&](ValueId v) {
                            const OpId from = graph_.producer(v);
                            return is_total_[from.index] || (stage(from) >= 0 && stage(from) != stage(id));
                          });
  }
}

/// By op: whether it is the derivative of a value that depends on parameters alone. A node that only rounds a parameter
/// first is not.
std::vector<bool> Stages::derivatives_of_parameters() const {
  std::set<OriginId> nodes, others;
  for (const OpId id : graph_.order()) {
    if (is_source(graph_.op(id))) continue;
    for (const OriginId origin : graph_.op(id).origins) (of_parameters_[id.index] ? nodes : others).insert(origin);
  }
  std::erase_if(nodes, [&](OriginId node) { return others.contains(node); });
  std::vector<bool> found(graph_.op_capacity(), false);
  for (const OpId id : graph_.order()) {
    const std::vector<OriginId>& origins = graph_.op(id).origins;
    found[id.index] = !origins.empty() &&
                      std::ranges::all_of(origins, [&](OriginId o) { return nodes.contains(module_.forward_node(o)); });
  }
  return found;
}

/// If several stages read a parameter, each has a gradient of it; the same holds for values computed from parameters
/// alone. These gradients are added up once, after the micro-batches, because no stage may wait for another one's.
/// Views and derivatives of the sum on the way to the update belong to that block too.
void Stages::find_sums_of_gradients() {
  const std::vector<OpId> order = graph_.order();
  std::vector<bool> is_last(graph_.op_capacity(), false), is_sum(graph_.op_capacity(), false);
  const std::vector<bool> is_derivative = derivatives_of_parameters();
  const auto is_last_use = [&](const Use& use) {
    return !use.op || phase(use.op) == Phase::Update || is_last[use.op.index];
  };
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Op& op = graph_.op(*at);
    if (phase(*at) != Phase::Backward || is_source(op)) continue;
    if (op.kind == OpKind::Add || category(op) == Category::View || is_derivative[at->index])
      is_last[at->index] = std::ranges::all_of(
          op.outputs, [&](ValueId v) { return std::ranges::all_of(graph_.value(v).uses, is_last_use); });
  }
  for (const OpId id : order) {
    if (!is_last[id.index]) continue;
    int first = kNone;  // of the stages of its operands
    for (const ValueId v : graph_.op(id).inputs) {
      const OpId maker = v ? graph_.producer(v) : OpId{};
      if (!maker || stage(maker) < 0) continue;
      is_sum[id.index] = is_sum[id.index] || is_sum[maker.index] || (first >= 0 && first != stage(maker));
      first = earliest(first, stage(maker));
    }
    if (is_sum[id.index]) phase(id) = Phase::Update, stage(id) = first;
  }
}

/// Looks through ops that are computed wherever they are read, such as views of a parameter.
int Stages::first_reader(ValueId value) const {
  int first = kNone;
  for (const Use& use : graph_.value(value).uses) {
    if (!use.op) continue;
    std::vector<int> readers = {stage(use.op)};
    if (is_free(use.op) && phase_of_[use.op.index] == Phase::Forward)
      for (const ValueId made : graph_.op(use.op).outputs) readers.push_back(first_reader(made));
    for (const int reader : readers) first = earliest(first, reader);
  }
  return first;
}

/// The home of a parameter is the first stage that reads it; the optimizer's states for it have the same home.
void Stages::find_homes() {
  for (const ValueId input : graph_.inputs())
    if (const int home = first_reader(input); home >= 0) homes_[graph_.value(input).name] = home;
  for (const State& state : module_.states)
    if (const auto of = homes_.find(state.of); !state.of.empty() && of != homes_.end())
      homes_[state.input] = of->second;
}

/// An op that leads only to the next states of one home runs there; any other op runs where its operands are.
void Stages::assign_update() {
  std::vector<int> leads(graph_.op_capacity(), kNone);
  const auto lead = [&](OpId id, int home) {
    int& at = leads[id.index];
    at = home == kNone || at == home ? at : at == kNone ? home : kSeveral;
  };
  for (const Graph::Output& output : graph_.outputs())
    for (const State& state : module_.states)
      if (const auto home = homes_.find(state.input); state.output == output.name && home != homes_.end())
        lead(graph_.producer(output.value), home->second);
  std::vector<OpId> order = graph_.order();
  for (auto at = order.rbegin(); at != order.rend(); ++at)
    for (const ValueId v : graph_.op(*at).outputs)
      for (const Use& use : graph_.value(v).uses)
        if (use.op) lead(*at, leads[use.op.index]);
  for (const OpId id : order) {
    if (phase(id) != Phase::Update || stage(id) >= 0 || is_free(id) || category(graph_.op(id)) == Category::Source)
      continue;
    stage(id) = leads[id.index] >= 0 ? leads[id.index] : stage_of_operands(graph_.op(id));
  }
}

}  // namespace weftc

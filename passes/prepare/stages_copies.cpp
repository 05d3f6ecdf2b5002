// Values that are computed in each stage that reads them.
#include <algorithm>
#include <set>
#include <utility>

#include "ir/op_def.h"
#include "passes/prepare/stages.h"

namespace weftc {

/// Finds values that the forward pass computes from parameters alone, such as their exponentials or norms. They belong
/// to the stages that read them, whichever stage lists them.
void Stages::find_of_parameters() {
  if (!module_.training) return;
  std::set<std::string> states;
  for (const State& state : module_.states) states.insert(state.input);
  const auto is_kept = [&](const Op& op) {
    return op.kind == OpKind::Constant || states.contains(graph_.value(op.outputs[0]).name);
  };
  std::vector<bool> follows(graph_.op_capacity(), false);
  for (const OpId id : graph_.order()) {
    const Op& op = graph_.op(id);
    const bool is_made = !op.inputs.empty() && op.regions.empty() && phase(id) == Phase::Forward;
    follows[id.index] = is_source(op) ? is_kept(op) : is_made && std::ranges::all_of(op.inputs, [&](ValueId v) {
                                                        return !v || follows[graph_.producer(v).index];
                                                      });
    of_parameters_[id.index] = follows[id.index] && !is_source(op) && !is_free(id);
    if (of_parameters_[id.index] && stage(id) >= 0) listed_[id] = std::exchange(stage(id), kNone);
  }
}

/// Such a value is computed once a step, before the micro-batches, at each place that reads it, because blocks of that
/// time send nothing. Its derivative is computed in the first of the stages that read it, from the sum of their
/// derivatives.
void Stages::assign_of_parameters() {
  const std::vector<OpId> order = graph_.order();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    if (!of_parameters_[at->index]) continue;
    for (const ValueId v : graph_.op(*at).outputs)
      for (const Use& use : graph_.value(v).uses)
        if (use.op && phase(use.op) == Phase::Forward) stage(*at) = earliest(stage(*at), stage(use.op));
    if (stage(*at) >= 0) continue;
    const auto listed = listed_.find(*at);
    stage(*at) = listed != listed_.end() ? listed->second : last_stage();
  }
}

/// Views in the backward pass of values that the forward pass has kept. Derivatives of several stages may share such a
/// view, and must not wait for each other because of it.
std::vector<bool> Stages::views_of_forward() const {
  std::vector<bool> found(graph_.op_capacity(), false);
  for (const OpId id : graph_.order()) {
    const Op& op = graph_.op(id);
    found[id.index] = phase_of_[id.index] == Phase::Backward && category(op) == Category::View &&
                      std::ranges::all_of(op.inputs, [&](ValueId v) {
                        const OpId from = v ? graph_.producer(v) : OpId{};
                        return !from || phase_of_[from.index] == Phase::Forward || found[from.index];
                      });
  }
  return found;
}

/// Makes the backward pass of a stage reuse what the stage has received in the forward pass, so that it does not wait
/// for another stage to recompute it.
void Stages::keep_received() {
  std::vector<OpId> order = graph_.order();
  for (const OpId id : order)
    for (size_t i = 0; i < graph_.op(id).inputs.size(); ++i) {
      const ValueId v = graph_.op(id).inputs[i];
      if (!v || stage(id) < 0 || stage(graph_.producer(v)) < 0 || stage(graph_.producer(v)) == stage(id)) continue;
      if (const ValueId kept = find_first(v)) graph_.set_input(id, i, kept);
    }
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const std::vector<ValueId>& made = graph_.op(*at).outputs;
    if (phase(*at) == Phase::Backward && !is_source(graph_.op(*at)) &&
        std::ranges::all_of(made, [&](ValueId v) { return graph_.value(v).uses.empty(); }))
      graph_.erase(*at);
  }
}

/// The value of the forward pass that a recomputed value copies; invalid for other values.
ValueId Stages::find_first(ValueId again) const {
  const std::string& name = graph_.value(again).name;
  const auto at = std::ranges::find(module_.again, name, &std::pair<const std::string, std::string>::second);
  if (at == module_.again.end() || phase_of_[graph_.producer(again).index] != Phase::Backward) return {};
  const ValueId first = graph_.find_value(at->first);
  const bool is_same =
      first && phase_of_[graph_.producer(first).index] == Phase::Forward && graph_.type(first) == graph_.type(again);
  return is_same ? first : ValueId{};
}

/// Visits readers first, so that they have stages.
void Stages::copy_free_ops() {
  const std::vector<OpId> order = graph_.order();
  const std::vector<bool> is_view = views_of_forward();
  for (auto at = order.rbegin(); at != order.rend(); ++at)
    if (!is_source(graph_.op(*at)) && (is_free(*at) || of_parameters_[at->index] || is_view[at->index]))
      copy_for_stages(*at);
}

/// Stages of one place share one copy: the one of `home` if it is there, else the one of the first stage.
void Stages::join_at_places(int home, std::map<int, std::vector<Use>>& readers) const {
  std::map<std::string, int> stages;  // by place
  const auto place = [&](int number) { return place_of(schedule_.pipeline->stages[static_cast<size_t>(number)]); };
  for (const auto& [number, uses] : readers) {
    int& at = stages.emplace(place(number), number).first->second;
    at = earliest(at, number);
  }
  stages[place(home)] = home;
  std::map<int, std::vector<Use>> joined;
  for (const auto& [number, uses] : readers) {
    std::vector<Use>& all = joined[stages.at(place(number))];
    all.insert(all.end(), uses.begin(), uses.end());
  }
  readers = std::move(joined);
}

/// Keeps the op in the first of the stages that read it, and adds a copy for each other one. An op that only outputs
/// read is computed in the last stage.
void Stages::copy_for_stages(OpId id) {
  std::map<int, std::vector<Use>> readers;
  std::map<int, Phase> phases;
  for (const ValueId v : graph_.op(id).outputs)
    for (const Use& use : graph_.value(v).uses) {
      if (!use.op || stage(use.op) < 0) continue;
      readers[stage(use.op)].push_back(use);
      const auto found = phases.emplace(stage(use.op), phase(use.op)).first;
      found->second = std::min(found->second, phase(use.op));
    }
  if (of_parameters_[id.index]) {
    join_at_places(stage(id), readers);
  } else {
    stage(id) = readers.empty() ? last_stage() : readers.begin()->first;
    if (!readers.empty() && phase(id) != Phase::Forward) phase(id) = phases.begin()->second;
  }
  const Op op = graph_.op(id);
  for (const auto& [number, uses] : readers) {
    if (number == stage(id)) {
      for (const ValueId v : op.outputs) copies_[v][number] = v;
      continue;
    }
    NewOp made = copy_of(op);
    made.name += "." + schedule_.pipeline->stages[static_cast<size_t>(number)].name;
    made.inputs = op.inputs;
    for (const ValueId v : op.outputs) {
      made.results.push_back(graph_.type(v));
      made.result_names.push_back(graph_.value(v).name + "." +
                                  schedule_.pipeline->stages[static_cast<size_t>(number)].name);
    }
    const OpId copy = graph_.add(std::move(made), graph_.next(id));
    stage_of_.push_back(number), phase_of_.push_back(of_parameters_[id.index] ? Phase::Forward : phases.at(number)),
        of_weights_.push_back(false), is_total_.push_back(false);
    free_.push_back(is_free(id)), of_parameters_.push_back(of_parameters_[id.index]);
    for (size_t r = 0; r < op.outputs.size(); ++r) {
      copies_[op.outputs[r]][number] = graph_.op(copy).outputs[r];
      for (const Use& use : uses)
        if (graph_.op(use.op).inputs[use.input] == op.outputs[r])
          graph_.set_input(use.op, use.input, graph_.op(copy).outputs[r]);
    }
  }
}

}  // namespace weftc

#include "passes/prepare/stages.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ir/base/contains.h"
#include "ir/op_def.h"
#include "passes/graph_order.h"

namespace weftc {

namespace {

PlaceId find_place(const Module& module, const std::string& name) {
  for (uint32_t p = 0; p < module.places.size(); ++p)
    if (module.places[p].name == name) return {p};
  return {};
}

/// Gives an op, also those of its regions, a place.
void set_place(Graph& graph, OpId id, PlaceId place) {
  Op& op = graph.edit(id);
  op.place = place;
  for (Graph& region : op.regions)
    for (OpId inner : region.order()) set_place(region, inner, place);
}

/// An op of stage `to` reads a result of stage `from`.
struct StageRead {
  int from, to;
};

/// The stages in the order of the schedule, but each after those it reads; stages that read each other stay as listed.
std::vector<int> sequence_of(int stages, const std::vector<StageRead>& reads) {
  std::vector<int> sequence;
  std::vector<bool> done(static_cast<size_t>(stages), false);
  const auto is_ready = [&](int stage) {
    return std::none_of(reads.begin(), reads.end(), [&](const StageRead& r) { return r.to == stage && !done[r.from]; });
  };
  while (static_cast<int>(sequence.size()) < stages) {
    int next = -1;
    for (int s = stages - 1; s >= 0; --s)
      if (!done[s] && (next < 0 || is_ready(s) || !is_ready(next))) next = s;
    done[next] = true;
    sequence.push_back(next);
  }
  return sequence;
}

}  // namespace

bool is_source(const Op& op) { return category(op) == Category::Source; }

Stages::Stages(Module& module, const Schedule& schedule, const Target& target, Diags& diags)
    : module_(module),
      graph_(module.graph),
      schedule_(schedule),
      target_(target),
      diags_(diags),
      stage_of_(module.graph.op_capacity(), kNone),
      phase_of_(module.graph.op_capacity(), Phase::Forward),
      of_weights_(module.graph.op_capacity(), false),
      is_figure_(module.graph.op_capacity(), false),
      is_total_(module.graph.op_capacity(), false),
      free_(module.graph.op_capacity(), false),
      of_parameters_(module.graph.op_capacity(), false),
      rank_(schedule.pipeline->stages.size(), 0) {}

void Stages::assign() {
  find_phases();
  for (size_t s = 0; s < schedule_.pipeline->stages.size(); ++s) assign_listed(static_cast<int>(s));
  if (!diags_.ok()) return;
  find_free();
  find_of_parameters();
  report_contested();
  if (!diags_.ok()) return;
  if (schedule_.pipeline->cuts)
    assign_cuts();
  else
    assign_rest();
  if (!diags_.ok()) return;
  rank_stages();
  assign_forward();
  if (module_.training) {
    assign_of_parameters();
    assign_backward();
    keep_received();
    find_sums_of_gradients();
    find_homes();
    assign_update();
  }
  find_totals();
  copy_free_ops();
  report_missing();
  if (module_.training && schedule_.pipeline->splits_backward && diags_.ok()) split_backward();
}

/// Finds the phases of a training: first the ops that figures depend on, then those that derivatives depend on, then
/// the rest.
void Stages::find_phases() {
  if (!module_.training) return;
  std::vector<ValueId> figures, early, derivatives;
  for (const Graph::Output& output : graph_.outputs())
    if (module_.training->is_figure(output.name)) figures.push_back(output.value);
  for (const OpId id : graph_.order()) {
    const Op& op = graph_.op(id);
    const auto is_any = [&](auto&& wanted) {
      return std::ranges::any_of(op.origins, [&](OriginId o) { return wanted(module_.origins[o.index].phase); });
    };
    if (is_any([](Phase phase) { return phase != Phase::Update; }))
      early.insert(early.end(), op.outputs.begin(), op.outputs.end());
    if (is_any([](Phase phase) { return phase == Phase::Backward; }))
      derivatives.insert(derivatives.end(), op.outputs.begin(), op.outputs.end());
  }
  const std::vector<bool> is_forward = ancestors_of(graph_, figures), is_early = ancestors_of(graph_, early),
                          is_kept = ancestors_of(graph_, derivatives);
  for (const OpId id : graph_.order()) {
    phase(id) = is_forward[id.index] ? Phase::Forward : is_early[id.index] ? Phase::Backward : Phase::Update;
    is_figure_[id.index] = is_forward[id.index] && !is_kept[id.index];
  }
}

/// If not every node is listed, a node is the model's if it reads an image or a matrix; masks and positions are
/// computed from smaller values.
bool Stages::is_large(const Op& source) const {
  const std::vector<StageRequest>& stages = schedule_.pipeline->stages;
  const bool lists_all = !schedule_.pipeline->cuts && std::ranges::none_of(stages, &StageRequest::has_rest);
  if (lists_all || (source.kind != OpKind::Input && source.kind != OpKind::Constant)) return false;
  const TensorType& type = graph_.type(source.outputs[0]);
  return is_float(type.dtype) && std::ranges::count_if(type.shape, [](const Extent& e) { return e.bound > 1; }) > 1;
}

/// Nodes that compute the same are one op, which need not be of the stage that lists one of them.
bool Stages::may_be_free(OpId id) const { return stage(id) < 0 || graph_.op(id).origins.size() > 1; }

/// A state is free if its next value is: the number of the step. All are taken for it until one turns out not to be.
void Stages::find_free() {
  std::set<std::string> bound;  // states that are not free
  size_t before;
  do {
    before = bound.size();
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      const bool is_bound_state = op.kind == OpKind::Input && bound.contains(graph_.value(op.outputs[0]).name);
      free_[id.index] = may_be_free(id) && op.regions.empty() && !is_bound_state &&
                        (is_source(op) ? !is_large(op) : !op.inputs.empty()) &&
                        std::ranges::all_of(op.inputs, [&](ValueId v) { return !v || is_free(graph_.producer(v)); });
    }
    for (const State& state : module_.states)
      for (const Graph::Output& output : graph_.outputs())
        if (output.name == state.output && !is_free(graph_.producer(output.value))) bound.insert(state.input);
  } while (bound.size() != before);
  for (const OpId id : graph_.order()) {  // a parameter under another shape, and numbers computed from states
    const Op& op = graph_.op(id);
    const bool is_of_sources = std::ranges::all_of(
        op.inputs, [&](ValueId v) { return !v || is_source(graph_.producer_op(v)) || is_free(graph_.producer(v)); });
    const bool are_numbers =
        op.regions.empty() && std::ranges::all_of(op.outputs, [&](ValueId v) { return graph_.type(v).count() == 1; });
    if (may_be_free(id) && !is_source(op) && is_of_sources && (category(op) == Category::View || are_numbers))
      free_[id.index] = true;
  }
  for (const OpId id : graph_.order())
    if (is_free(id)) stage(id) = kNone;
}

/// True for ops that `train:` has added to the model's nodes.
bool Stages::is_added(const Op& op) const {
  return module_.training && !op.origins.empty() && std::ranges::all_of(op.origins, [&](OriginId o) {
           return module_.origins[o.index].loc.file == schedule_.file;
         });
}

/// The nodes of the model that no other stage lists.
void Stages::assign_rest() {
  const int rest = stage_of_rest();
  if (rest == kNone) return;
  for (const OpId id : graph_.order())
    if (stage(id) < 0 && is_of_model(id)) stage(id) = rest;
}

/// Numbers the stages so that each comes after those that it reads.
void Stages::rank_stages() {
  std::vector<StageRead> reads;
  for (const OpId id : graph_.order())
    for (const ValueId v : graph_.op(id).inputs)
      if (const int from = v ? stage(graph_.producer(v)) : kNone; from >= 0 && stage(id) >= 0 && from != stage(id))
        reads.push_back({from, stage(id)});
  const std::vector<int> sequence = sequence_of(static_cast<int>(rank_.size()), reads);
  for (size_t at = 0; at < sequence.size(); ++at) rank_[static_cast<size_t>(sequence[at])] = static_cast<int>(at);
}

int Stages::latest(int a, int b) const {
  if (a < 0 || b < 0) return std::max(a, b);
  return rank_[static_cast<size_t>(a)] >= rank_[static_cast<size_t>(b)] ? a : b;
}

int Stages::earliest(int a, int b) const {
  if (a < 0 || b < 0) return std::max(a, b);
  return latest(a, b) == a ? b : a;
}

int Stages::last_stage() const { return static_cast<int>(std::ranges::max_element(rank_) - rank_.begin()); }

int Stages::stage_of_operands(const Op& op) const {
  int found = kNone;
  for (const ValueId v : op.inputs)
    if (v) found = latest(found, stage(graph_.producer(v)));
  return found;
}

void Stages::assign_forward() {
  for (const OpId id : graph_.order()) {
    const Op& op = graph_.op(id);
    if (phase(id) != Phase::Forward || stage(id) >= 0 || is_free(id) || is_source(op)) continue;
    if (category(op) != Category::View && !is_added(op)) continue;
    stage(id) = joins_stages(op) ? stage_of_rest() : stage_of_operands(op);
  }
}

/// True for an op that joins values of several stages, if one stage has all nodes that are not listed.
bool Stages::joins_stages(const Op& op) const {
  if (is_added(op) || stage_of_rest() == kNone) return false;
  std::set<int> read;
  for (const ValueId v : op.inputs)
    if (v && stage(graph_.producer(v)) >= 0) read.insert(stage(graph_.producer(v)));
  return read.size() > 1;
}

int Stages::stage_of_rest() const {
  const std::vector<StageRequest>& stages = schedule_.pipeline->stages;
  const auto rest = std::ranges::find(stages, true, &StageRequest::has_rest);
  return rest == stages.end() ? kNone : static_cast<int>(rest - stages.begin());
}

/// By node of the forward pass: where its ops are. One that it shares with another stage's node may be there.
std::map<OriginId, int> Stages::stages_of_nodes() const {
  std::map<OriginId, int> stages;
  for (const OpId id : graph_.order()) {
    if (phase_of_[id.index] != Phase::Forward || stage(id) < 0) continue;
    for (const OriginId origin : graph_.op(id).origins) {
      int& at = stages.emplace(origin, kNone).first->second;
      at = latest(at, stage(id));
    }
  }
  return stages;
}

/// Assigns a backward op to the earliest stage of the nodes that it differentiates, since their backward passes end
/// there. An Add of gradients goes where the last of them is made.
void Stages::assign_backward() {
  const std::map<OriginId, int> stage_of_node = stages_of_nodes();
  for (const OpId id : graph_.order()) {
    const Op& op = graph_.op(id);
    if (phase(id) != Phase::Backward || is_free(id) || is_source(op)) continue;
    for (const OriginId origin : op.origins) {
      const auto node = stage_of_node.find(module_.forward_node(origin));
      if (node == stage_of_node.end()) continue;
      if (stage(id) < 0 || latest(stage(id), node->second) == stage(id)) stage(id) = node->second;
    }
    if (stage(id) < 0) stage(id) = stage_of_operands(op);
    if (op.kind != OpKind::Add) continue;
    for (const ValueId v : op.inputs)
      if (v && phase(graph_.producer(v)) == Phase::Backward) stage(id) = earliest(stage(id), stage(graph_.producer(v)));
  }
}

/// The rest of a backward pass comes after the awaited part, and must wait for no further stage; else the pass stays
/// whole.
void Stages::join_late_weights(const std::vector<bool>& is_awaited, std::vector<bool>& is_split) const {
  std::vector<std::set<int>> read(rank_.size()), read_late(rank_.size());  // by stage: others
  for (const OpId id : graph_.order()) {
    if (phase_of_[id.index] != Phase::Backward || is_source(graph_.op(id))) continue;
    const int reader = stage(id);
    for (const ValueId v : graph_.op(id).inputs) {
      const OpId maker = v ? graph_.producer(v) : OpId{};
      if (maker && phase_of_[maker.index] == Phase::Backward && stage(maker) >= 0 && stage(maker) != reader)
        (is_awaited[id.index] ? read : read_late)[static_cast<size_t>(reader)].insert(stage(maker));
    }
  }
  for (size_t s = 0; s < is_split.size(); ++s)
    if (!std::ranges::includes(read[s], read_late[s])) is_split[s] = false;
}

/// Splits each backward pass. The first block computes what another stage waits for, and gradients that lead to several
/// parameters. The second block has the rest, for which only one update waits. A stage whose first part is empty has
/// one block.
void Stages::split_backward() {
  const std::vector<OpId> order = graph_.order();
  std::vector<std::set<ValueId>> leads_to(graph_.op_capacity());  // gradients; at most two are kept
  std::vector<bool> is_awaited(graph_.op_capacity(), false), is_split(rank_.size(), false);
  const auto add = [](std::set<ValueId>& to, ValueId v) {
    if (to.size() < 2) to.insert(v);
  };
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    if (phase(*at) != Phase::Backward || is_source(graph_.op(*at))) continue;
    std::set<ValueId>& mine = leads_to[at->index];
    for (const ValueId v : graph_.op(*at).outputs)
      for (const Use& use : graph_.value(v).uses) {
        if (!use.op || phase(use.op) == Phase::Update) {
          add(mine, v);
          continue;
        }
        is_awaited[at->index] = is_awaited[at->index] || is_awaited[use.op.index] || stage(use.op) != stage(*at);
        for (const ValueId gradient : leads_to[use.op.index]) add(mine, gradient);
      }
    is_awaited[at->index] = is_awaited[at->index] || mine.size() > 1;
    if (is_awaited[at->index]) is_split[static_cast<size_t>(stage(*at))] = true;
  }
  join_late_weights(is_awaited, is_split);
  for (const OpId id : order)
    if (phase(id) == Phase::Backward && !is_source(graph_.op(id)))
      of_weights_[id.index] = !is_awaited[id.index] && is_split[static_cast<size_t>(stage(id))];
}

void Stages::report_missing() {
  for (const OpId id : graph_.order()) {
    if (is_source(graph_.op(id)) || stage(id) >= 0) continue;
    diags_.error("stage-missing", module_.loc(graph_.op(id)), "no stage of the pipeline lists '{}'", graph_.op(id).name)
        .note(schedule_.pipeline->loc, "the stages are listed here");
  }
}

/// Numbers the blocks; those that run once come after the others.
std::vector<Pipeline::Block> Stages::number_blocks() {
  struct Key {
    int stage;
    Phase phase;
    bool of_weights, is_total;
    auto operator<=>(const Key&) const = default;
  };
  const auto key_of = [&](OpId id) { return Key{stage(id), phase(id), of_weights_[id.index], is_total_[id.index]}; };
  std::map<Key, int> numbers;
  for (const OpId id : graph_.order())
    if (!is_source(graph_.op(id))) numbers[key_of(id)] = 0;
  std::vector<Pipeline::Block> blocks;
  const auto add = [&](const Key& key, const char* part) {
    numbers[key] = static_cast<int>(blocks.size());
    const std::string& name = schedule_.pipeline->stages[static_cast<size_t>(key.stage)].name;
    const Turn turn = key.phase == Phase::Update || key.is_total ? Turn::After : Turn::MicroBatch;
    blocks.push_back({name + part, key.stage, key.phase, turn, key.of_weights});
  };
  const int stages = static_cast<int>(rank_.size());
  for (int s = 0; s < stages; ++s) {
    add({s, Phase::Forward, false, false}, module_.training ? "_forward" : "");
    if (numbers.contains({s, Phase::Backward, false, false})) add({s, Phase::Backward, false, false}, "_backward");
    if (numbers.contains({s, Phase::Backward, true, false})) add({s, Phase::Backward, true, false}, "_weight");
  }
  for (int s = 0; s < stages; ++s)
    if (numbers.contains({s, Phase::Forward, false, true})) add({s, Phase::Forward, false, true}, "_figures");
  for (int s = 0; s < stages && module_.training; ++s)
    add({s, Phase::Update, false, false}, "_update");  // next values may arrive from elsewhere
  for (const OpId id : graph_.order()) {
    if (is_source(graph_.op(id))) continue;
    set_place(graph_, id, find_place(module_, place_of(schedule_.pipeline->stages[static_cast<size_t>(stage(id))])));
    graph_.edit(id).block = numbers.at(key_of(id));
  }
  return blocks;
}

std::vector<BlockRead> Stages::reads() const {
  std::map<std::pair<int, int>, BlockRead> found;
  for (OpId id : graph_.order())
    for (ValueId v : graph_.op(id).inputs) {
      if (!v || is_source(graph_.producer_op(v))) continue;
      const int from = *graph_.producer_op(v).block, to = *graph_.op(id).block;
      if (from == to) continue;
      const bool same_place = graph_.producer_op(v).place == graph_.op(id).place;
      found.insert({{from, to}, {from, to, graph_.value(v).name, graph_.op(id).name, same_place}});
    }
  std::vector<BlockRead> reads;
  for (const auto& entry : found) reads.push_back(entry.second);
  return reads;
}

ValueId Stages::copy_in(ValueId value, PlaceId place) const {
  const auto copies = copies_.find(value);
  if (copies != copies_.end())
    for (const auto& [number, copy] : copies->second)
      if (graph_.producer_op(copy).place == place) return copy;
  return graph_.producer_op(value).place == place ? value : ValueId{};
}

}  // namespace weftc

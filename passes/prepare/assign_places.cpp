// Makes the places of the schedule and gives every op one; a value that is needed elsewhere passes a Transfer.
//
//   stages {embed: all, a: a}     %h = Gather(%wte, %ids) @all
//                                 %h.to.a = Transfer(%h) @a
//                                 %y = MatMul(%h.to.a, %w) @a
//
// Inputs and constants are loaded in each place that reads them. Without `places:` there is one place of all ranks.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "ir/named_lengths.h"
#include "ir/op_def.h"
#include "passes/passes.h"
#include "passes/prepare/pipeline_order.h"
#include "passes/select.h"

namespace weftc {

namespace {

/// The schedule's places, or one of all ranks of its mesh.
void make_places(Module& module, const Schedule& schedule) {
  module.places.clear();
  if (!schedule.places.empty()) {
    for (const PlaceRequest& p : schedule.places) module.places.push_back({p.name, p.ranks, p.mesh});
    return;
  }
  Place all{"all", {}, schedule.mesh};
  all.ranks.resize(mesh_size(schedule.mesh));
  std::iota(all.ranks.begin(), all.ranks.end(), 0);
  module.places.push_back(std::move(all));
}

PlaceId find_place(const Module& module, const std::string& name) {
  for (uint32_t p = 0; p < module.places.size(); ++p)
    if (module.places[p].name == name) return {p};
  return {};
}

/// Gives an op, and those of its regions, a place.
void set_place(Graph& graph, OpId id, PlaceId place) {
  Op& op = graph.edit(id);
  op.place = place;
  for (Graph& region : op.regions)
    for (OpId inner : region.order()) set_place(region, inner, place);
}

/// Gives ops their place and stage. An op that no stage lists is an error; only views (reshapes that an
/// exporter did not name) go where their operands are.
class Stages {
 public:
  Stages(Module& module, const Schedule& schedule, Diags& diags)
      : module_(module), schedule_(schedule), diags_(diags), stage_of_(module.graph.op_capacity(), -1) {}

  void assign() {
    for (size_t s = 0; s < schedule_.pipeline->stages.size(); ++s) assign_stage(static_cast<int>(s));
    adopt_from_operands();
    Graph& graph = module_.graph;
    for (OpId id : graph.order()) {
      if (category(graph.op(id)) == Category::Source) continue;
      const int stage = stage_of_[id.index];
      if (stage < 0) {
        diags_
            .error("stage-missing", module_.loc(graph.op(id)), "no stage of the pipeline lists '{}'", graph.op(id).name)
            .note(schedule_.pipeline->loc, "the stages are listed here");
        continue;
      }
      set_place(graph, id, find_place(module_, schedule_.pipeline->stages[stage].place));
      graph.edit(id).stage = stage;
    }
  }

  /// What stages read of each other: the first value of each pair.
  std::vector<StageRead> reads() const {
    const Graph& graph = module_.graph;
    std::map<std::pair<int, int>, StageRead> found;
    for (OpId id : graph.order())
      for (ValueId v : graph.op(id).inputs) {
        const int from = v ? stage_of_[graph.producer(v).index] : -1, to = stage_of_[id.index];
        if (from < 0 || from == to) continue;
        const bool same_place = graph.producer_op(v).place == graph.op(id).place;
        found.insert({{from, to}, {from, to, graph.value(v).name, graph.op(id).name, same_place}});
      }
    std::vector<StageRead> reads;
    for (const auto& entry : found) reads.push_back(entry.second);
    return reads;
  }

 private:
  /// Resolves the selectors of one stage.
  void assign_stage(int stage) {
    const SelectableNames names(module_, module_.graph, schedule_.aliases);
    for (const Selector& selector : schedule_.pipeline->stages[stage].nodes) {
      bool matched = false;
      for (const Bindings& bindings : names.bindings({selector}))
        for (OpId id : names.select_ops(selector, bindings)) {
          int& mine = stage_of_[id.index];
          matched = true;
          if (mine >= 0 && mine != stage)
            diags_.error("stage-twice", selector.loc, "'{}' is in stage '{}' already{}", module_.graph.op(id).name,
                         schedule_.pipeline->stages[mine].name, merged_text(module_.graph.op(id)));
          mine = stage;
        }
      if (!matched) names.report_unmatched(selector, diags_);
    }
  }

  /// Nodes that compute the same, or that a rewrite rule joined, are one op: each of their names selects it.
  std::string merged_text(const Op& op) const {
    if (op.origins.size() < 2) return "";
    std::vector<std::string> names;
    for (OriginId origin : op.origins) names.push_back("'" + module_.origins[origin.index].name + "'");
    return ": " + join(names, " and ") + " have become one op";
  }

  /// Views that no stage lists go where their operands are.
  void adopt_from_operands() {
    const Graph& graph = module_.graph;
    for (OpId id : graph.order()) {
      int& mine = stage_of_[id.index];
      if (mine >= 0 || category(graph.op(id)) != Category::View) continue;
      for (ValueId v : graph.op(id).inputs)
        if (v) mine = std::max(mine, stage_of_[graph.producer(v).index]);
    }
  }

  Module& module_;
  const Schedule& schedule_;
  Diags& diags_;
  std::vector<int> stage_of_;
};

/// A run-time length that data decides is not sent: all that has it runs in the place where it is made.
void check_lengths(const Module& module, const Schedule& schedule, Diags& diags) {
  const Graph& graph = module.graph;
  const LengthHolders lengths(graph);
  std::set<ValueId> reported;
  const auto stage = [&](OpId id) -> const StageRequest& {
    return schedule.pipeline->stages[static_cast<size_t>(graph.op(id).stage.value())];
  };
  for (OpId id : graph.order()) {
    if (category(graph.op(id)) == Category::Source) continue;
    lengths.for_each(graph.op(id), [&](ValueId length) {
      const OpId maker = graph.producer(length);
      if (graph.op(maker).place == graph.op(id).place || !reported.insert(length).second) return;
      const StageRequest &here = stage(maker), &there = stage(id);
      diags
          .error("pipeline-run-time-length-unsupported", there.loc,
                 "'{}' of stage '{}' has a run-time length that '{}' of stage '{}' decides in another place: such "
                 "lengths are not sent; give both stages one place",
                 graph.op(id).name, there.name, graph.op(maker).name, here.name)
          .note(here.loc, "stage '{}' is here", here.name);
    });
  }
}

/// Gives each reader its operands in its own place: sources are loaded there, other values are transferred,
/// once for each place. A transfer arrives in the stage that reads it first; stages that a table puts in
/// varying orders get one each.
class Movement {
 public:
  explicit Movement(Module& module) : module_(module), graph_(module.graph) {
    positions_.resize(module.pipeline->stages.size());
    for (size_t at = 0; at < module.pipeline->order.size(); ++at)
      positions_[static_cast<size_t>(module.pipeline->order[at].stage)].push_back(at);
  }

  void run() {
    place_sources();
    std::vector<OpId> readers;
    for (OpId id : graph_.order()) {
      numbers_[id] = readers.size();
      if (category(graph_.op(id)) != Category::Source) readers.push_back(id);
    }
    std::stable_sort(readers.begin(), readers.end(),
                     [&](OpId a, OpId b) { return positions_[stage(a)][0] < positions_[stage(b)][0]; });
    for (OpId id : readers)
      for (size_t i = 0; i < graph_.op(id).inputs.size(); ++i) {
        const ValueId v = graph_.op(id).inputs[i];
        if (v && !(graph_.producer_op(v).place == graph_.op(id).place)) graph_.set_input(id, i, in_place(v, id));
      }
  }

 private:
  struct TransferRequest {
    ValueId value;
    size_t stage;
    size_t reader;  // number of the first reader in the graph
  };

  size_t stage(OpId id) const { return static_cast<size_t>(graph_.op(id).stage.value()); }

  // A source lives in the place of its first reader.
  void place_sources() {
    for (OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (category(op) != Category::Source) continue;
      const PlaceId place = place_of_first_reader(id);
      graph_.edit(id).place = place;
      if (op.kind == OpKind::RandomUniform) graph_.edit(id).stage = stage_of_first_reader(id, place);
    }
  }

  /// What is drawn in a place is a step of the stage that reads it there.
  std::optional<int> stage_of_first_reader(OpId source, PlaceId place) const {
    std::optional<int> first;
    for (const Use& use : graph_.value(graph_.result(source)).uses) {
      if (!use.op || !(graph_.op(use.op).place == place)) continue;
      const std::optional<int> other = graph_.op(use.op).stage;
      if (!first || (other && comes_first(static_cast<size_t>(*other), static_cast<size_t>(*first)))) first = other;
    }
    return first;
  }

  PlaceId place_of_first_reader(OpId source) const {
    const auto& uses = graph_.value(graph_.result(source)).uses;
    const bool read = !uses.empty() && uses.front().op;
    return read ? graph_.op(uses.front().op).place : PlaceId{0};
  }

  /// True if `stage` runs every micro-batch before `other` does.
  bool comes_first(size_t stage, size_t other) const {
    for (size_t m = 0; m < positions_[stage].size(); ++m)
      if (positions_[stage][m] > positions_[other][m]) return false;
    return true;
  }

  /// The value in the reader's place: an earlier copy that arrives in time, or a new one.
  ValueId in_place(ValueId v, OpId reader) {
    const PlaceId place = graph_.op(reader).place;
    std::vector<TransferRequest>& copies = moved_[{v, place}];
    const bool is_source = category(graph_.producer_op(v)) == Category::Source;
    for (TransferRequest& copy : copies) {
      if (!is_source && !comes_first(copy.stage, stage(reader))) continue;
      if (!is_source && numbers_[reader] < copy.reader) {  // it stands before all its readers
        graph_.move_before(graph_.producer(copy.value), reader);
        copy.reader = numbers_[reader];
      }
      return copy.value;
    }
    std::string name = graph_.value(v).name + ".to." + module_.place(place).name;
    if (!copies.empty()) name += "." + module_.pipeline->stages[stage(reader)];
    copies.push_back({add_copy(v, reader, name), stage(reader), numbers_[reader]});
    return copies.back().value;
  }

  /// A second source, or a Transfer in front of the reader.
  ValueId add_copy(ValueId v, OpId reader, const std::string& name) {
    const PlaceId place = graph_.op(reader).place;
    const Op source = graph_.producer_op(v);
    NewOp made{source.kind, source.inputs, {graph_.type(v)}, source.attrs, {}, place, name, source.origins, {}, {name}};
    made.port = source.port;
    if (source.kind == OpKind::RandomUniform) made.stage = graph_.op(reader).stage;
    if (category(source) == Category::Source)
      return graph_.result(graph_.add(std::move(made), graph_.next(graph_.producer(v))));
    made.kind = OpKind::Transfer;
    made.inputs = {v};
    made.attrs = {};
    made.stage = graph_.op(reader).stage;
    return graph_.result(graph_.add(std::move(made), reader));
  }

  Module& module_;
  Graph& graph_;
  std::vector<std::vector<size_t>> positions_;  // of a stage's micro-batches in the order
  std::map<OpId, size_t> numbers_;
  std::map<std::pair<ValueId, PlaceId>, std::vector<TransferRequest>> moved_;
};

/// Every rank of the schedule has a program to run.
void check_idle_ranks(const Schedule& schedule, Diags& diags) {
  std::set<int> busy;
  for (const PlaceRequest& place : schedule.places)
    for (const StageRequest& stage : schedule.pipeline->stages)
      if (stage.place == place.name) busy.insert(place.ranks.begin(), place.ranks.end());
  for (const PlaceRequest& place : schedule.places)
    for (int rank : place.ranks)
      if (busy.insert(rank).second)
        diags.error("rank-without-stage", place.loc,
                    "rank {} of place '{}' runs no stage: give one to the place, or leave the rank out", rank,
                    place.name);
}

/// Inputs loaded in several places are one port of the model: all copies carry its number.
void number_ports(Graph& graph) {
  int port = 0;
  for (ValueId v : graph.inputs()) graph.edit(graph.producer(v)).port = port++;
}

}  // namespace

void assign_places(Module& module, const Env& env) {
  make_places(module, env.schedule);
  Graph& graph = module.graph;
  if (!env.schedule.pipeline) {
    if (module.places.size() > 1) {
      env.diags.error("places-without-pipeline", env.schedule.places[1].loc,
                      "several places need `pipeline: {stages: ...}` to say which nodes run where");
      return;
    }
    for (OpId id : graph.order()) set_place(graph, id, {0});
    return;
  }
  number_ports(graph);
  Stages stages(module, env.schedule, env.diags);
  stages.assign();
  check_idle_ranks(env.schedule, env.diags);
  if (!env.diags.ok()) return;
  check_lengths(module, env.schedule, env.diags);
  if (!env.diags.ok()) return;
  module.pipeline = pipeline_order(env.schedule, stages.reads(), env.diags);
  if (module.pipeline) Movement(module).run();
}

}  // namespace weftc

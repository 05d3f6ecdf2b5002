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

#include "ir/op_def.h"
#include "passes/passes.h"
#include "passes/pipeline_order.h"
#include "passes/select.h"

namespace weft {

namespace {

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

void set_place(Graph& graph, OpId id, PlaceId place) {
  Op& op = graph.edit(id);
  op.place = place;
  for (Graph& region : op.regions)
    for (OpId inner : region.order()) set_place(region, inner, place);
}

/// The stages' ops get their place and the attribute `stage`; an op that no stage lists is an error, unless all its
/// readers or all its operands are in one stage (reshapes and casts that an exporter did not name).
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
      graph.edit(id).set("stage", static_cast<int64_t>(stage));
    }
  }

 private:
  void assign_stage(int stage) {
    const SelectableNames names(module_, module_.graph);
    for (const Selector& selector : schedule_.pipeline->stages[stage].nodes) {
      bool matched = false;
      for (const Bindings& bindings : names.bindings({selector}))
        for (OpId id : names.select_ops(selector, bindings)) {
          int& mine = stage_of_[id.index];
          matched = true;
          if (mine >= 0 && mine != stage)
            diags_.error("stage-twice", selector.loc, "'{}' is in stage '{}' already", module_.graph.op(id).name,
                         schedule_.pipeline->stages[mine].name);
          mine = stage;
        }
      if (!matched) names.report_unmatched(selector, diags_);
    }
  }

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

/// Each reader sees its operands in its own place: sources are loaded there, other values transferred, once a place.
class Movement {
 public:
  explicit Movement(Module& module) : module_(module), graph_(module.graph) {}

  void run() {
    place_sources();
    for (OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (category(op) == Category::Source || op.kind == OpKind::Transfer) continue;
      const PlaceId place = op.place;
      for (size_t i = 0; i < graph_.op(id).inputs.size(); ++i) {
        const ValueId v = graph_.op(id).inputs[i];
        if (v && !(graph_.producer_op(v).place == place)) graph_.set_input(id, i, in_place(v, id));
      }
    }
  }

 private:
  // A source first lives where its first reader is.
  void place_sources() {
    for (OpId id : graph_.order()) {
      if (category(graph_.op(id)) != Category::Source) continue;
      const auto& uses = graph_.value(graph_.result(id)).uses;
      const bool read = !uses.empty() && uses.front().op;
      graph_.edit(id).place = read ? graph_.op(uses.front().op).place : PlaceId{0};
    }
  }

  ValueId in_place(ValueId v, OpId reader) {
    const PlaceId place = graph_.op(reader).place;
    const auto key = std::make_pair(v, place);
    if (moved_.contains(key)) return moved_[key];
    const Op source = graph_.producer_op(v);
    const std::string name = graph_.value(v).name + ".to." + module_.place(place).name;
    NewOp made;
    if (category(source) == Category::Source) {
      made = {source.kind, source.inputs, {graph_.type(v)}, source.attrs, {}, place, name, source.origins, {}, {name}};
    } else {
      made = {OpKind::Transfer, {v}, {graph_.type(v)}, {}, {}, place, name, source.origins, {}, {name}};
      made.attrs.push_back({"stage", graph_.op(reader).integer_or("stage", 0)});
    }
    const OpId behind = category(source) == Category::Source ? graph_.producer(v) : OpId{};
    const OpId id = graph_.add(std::move(made), behind ? graph_.next(behind) : reader);
    return moved_[key] = graph_.result(id);
  }

  Module& module_;
  Graph& graph_;
  std::map<std::pair<ValueId, PlaceId>, ValueId> moved_;
};

/// Inputs loaded in several places are one port of the model: all copies carry its number.
void number_ports(Graph& graph) {
  int64_t port = 0;
  for (ValueId v : graph.inputs()) graph.edit(graph.producer(v)).set("port", port++);
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
  Stages(module, env.schedule, env.diags).assign();
  if (!env.diags.ok()) return;
  Movement(module).run();
  module.pipeline = pipeline_order(env.schedule, env.diags);
}

}  // namespace weft

// Makes the places of the schedule and gives every op one; a value that is needed elsewhere passes a Transfer.
//
//   stages {embed: all, a: a}     %h = Gather(%wte, %ids) @all
//                                 %h.to.a = Transfer(%h) @a
//                                 %y = MatMul(%h.to.a, %w) @a
//
// Inputs and constants are loaded in each place that reads them. Without `places:` there is one place of all ranks.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/base/check.h"
#include "ir/named_lengths.h"
#include "ir/op_def.h"
#include "passes/passes.h"
#include "passes/prepare/pipeline_order.h"
#include "passes/prepare/stages.h"

namespace weftc {

namespace {

void make_places(Module& module, const std::vector<PlaceRequest>& places) {
  module.places.clear();
  for (const PlaceRequest& p : places) module.places.push_back({p.name, p.ranks, p.mesh});
}

/// Gives all ops, also those of their regions, a place.
void set_place(Graph& graph, PlaceId place) {
  for (OpId id : graph.order()) {
    Op& op = graph.edit(id);
    op.place = place;
    for (Graph& region : op.regions) set_place(region, place);
  }
}

/// A run-time length that data decides is not sent: all that has it runs in the place where it is made.
void check_lengths(const Module& module, const Schedule& schedule, const std::vector<Pipeline::Block>& blocks,
                   Diags& diags) {
  const Graph& graph = module.graph;
  const LengthHolders lengths(graph);
  std::set<ValueId> reported;
  const auto stage = [&](OpId id) -> const StageRequest& {
    const Pipeline::Block& block = blocks[static_cast<size_t>(graph.op(id).block.value())];
    return schedule.pipeline->stages[static_cast<size_t>(block.stage)];
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
/// once for each place. A transfer arrives in the block that reads it first; blocks that a table puts in
/// varying orders get one each.
class Movement {
 public:
  Movement(Module& module, const Schedule& schedule) : module_(module), graph_(module.graph), schedule_(schedule) {
    const Pipeline& pipeline = *module.pipeline;
    positions_.resize(pipeline.blocks.size());
    for (size_t at = 0; at < pipeline.order.size(); ++at)
      positions_[static_cast<size_t>(pipeline.order[at].block)].push_back(at);
    for (size_t b = 0; b < positions_.size(); ++b)
      if (pipeline.blocks[b].turn == Turn::After)
        positions_[b].assign(static_cast<size_t>(pipeline.micro_batches), pipeline.order.size() + b);
  }

  void run() {
    place_sources();
    std::vector<OpId> readers;
    for (OpId id : graph_.order()) {
      numbers_[id] = readers.size();
      if (category(graph_.op(id)) != Category::Source) readers.push_back(id);
    }
    std::stable_sort(readers.begin(), readers.end(),
                     [&](OpId a, OpId b) { return positions_[block(a)][0] < positions_[block(b)][0]; });
    for (OpId id : readers)
      for (size_t i = 0; i < graph_.op(id).inputs.size(); ++i) {
        const ValueId v = graph_.op(id).inputs[i];
        if (v && !(graph_.producer_op(v).place == graph_.op(id).place)) graph_.set_input(id, i, in_place(v, id));
      }
  }

  /// Where a state is read in several places, its next value is an output in each: computed there, or sent.
  void carry_states(const Stages& stages) {
    for (const State& state : module_.states)
      for (const ValueId input : inputs_of(state.input)) {
        const ValueId next = find_output(state.output);
        const PlaceId place = graph_.producer_op(input).place;
        if (!next || graph_.producer_op(next).place == place || graph_.value(input).uses.empty()) continue;
        const ValueId copy = stages.copy_in(next, place);
        graph_.add_output(copy ? copy : add_copy(next, place, update_block(place), {}), state.output);
      }
  }

 private:
  struct TransferRequest {
    ValueId value;
    size_t block;
    size_t reader;  // number of the first reader in the graph
  };

  size_t block(OpId id) const { return static_cast<size_t>(graph_.op(id).block.value()); }

  // A source lives in the place of its first reader.
  void place_sources() {
    for (OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (category(op) != Category::Source) continue;
      const PlaceId place = place_of_first_reader(id);
      graph_.edit(id).place = place;
      if (op.kind == OpKind::RandomUniform) graph_.edit(id).block = block_of_first_reader(id, place);
    }
  }

  /// The block of the first reader of a random draw in a place: the draw becomes a step of that block.
  std::optional<int> block_of_first_reader(OpId source, PlaceId place) const {
    std::optional<int> first;
    for (const Use& use : graph_.value(graph_.result(source)).uses) {
      if (!use.op || !(graph_.op(use.op).place == place)) continue;
      const std::optional<int> other = graph_.op(use.op).block;
      if (!first || (other && comes_first(static_cast<size_t>(*other), static_cast<size_t>(*first)))) first = other;
    }
    return first;
  }

  PlaceId place_of_first_reader(OpId source) const {
    const auto& uses = graph_.value(graph_.result(source)).uses;
    const bool read = !uses.empty() && uses.front().op;
    return read ? graph_.op(uses.front().op).place : PlaceId{0};
  }

  /// True if `block` runs every micro-batch before `other` does.
  bool comes_first(size_t block, size_t other) const {
    for (size_t m = 0; m < positions_[block].size(); ++m)
      if (positions_[block][m] > positions_[other][m]) return false;
    return true;
  }

  /// True if a value that arrives in `block` is available to `reader`, also in an evaluation, which runs the forward
  /// passes alone.
  bool serves(size_t block, size_t reader) const {
    const std::vector<Pipeline::Block>& blocks = module_.pipeline->blocks;
    const bool is_evaluated = blocks[block].phase == Phase::Forward || blocks[reader].phase != Phase::Forward;
    return is_evaluated && comes_first(block, reader);
  }

  /// The value in the reader's place: an earlier copy that arrives in time, or a new one.
  ValueId in_place(ValueId v, OpId reader) {
    const PlaceId place = graph_.op(reader).place;
    std::vector<TransferRequest>& copies = moved_[{v, place}];
    const bool is_source = category(graph_.producer_op(v)) == Category::Source;
    for (TransferRequest& copy : copies) {
      if (!is_source && !serves(copy.block, block(reader))) continue;
      if (!is_source && numbers_[reader] < copy.reader) {  // it precedes all its readers
        graph_.move_before(graph_.producer(copy.value), reader);
        copy.reader = numbers_[reader];
      }
      return copy.value;
    }
    const std::string after = copies.empty() ? "" : "." + module_.pipeline->blocks[block(reader)].name;
    copies.push_back(
        {add_copy(v, place, graph_.op(reader).block.value(), reader, after), block(reader), numbers_[reader]});
    return copies.back().value;
  }

  /// Adds a second source, or a Transfer before `before` (at the end if that is invalid).
  ValueId add_copy(ValueId v, PlaceId place, int block, OpId before, const std::string& after = "") {
    const std::string name = graph_.value(v).name + ".to." + module_.place(place).name + after;
    const Op source = graph_.producer_op(v);
    NewOp made{source.kind, source.inputs, {graph_.type(v)}, source.attrs, {}, place, name, source.origins, {}, {name}};
    made.port = source.port;
    if (source.kind == OpKind::RandomUniform) made.block = block;
    if (category(source) == Category::Source)
      return graph_.result(graph_.add(std::move(made), graph_.next(graph_.producer(v))));
    made.kind = OpKind::Transfer;
    made.inputs = {v};
    made.attrs = {};
    made.block = block;
    return graph_.result(graph_.add(std::move(made), before));
  }

  /// An input, and its copies in other places.
  std::vector<ValueId> inputs_of(const std::string& name) const {
    const ValueId first = graph_.find_value(name);
    std::vector<ValueId> found;
    for (const ValueId input : graph_.inputs())
      if (first && graph_.producer_op(input).port == graph_.producer_op(first).port) found.push_back(input);
    return found;
  }

  ValueId find_output(const std::string& name) const {
    for (const Graph::Output& output : graph_.outputs())
      if (output.name == name) return output.value;
    return {};
  }

  /// The first block at a place that updates.
  int update_block(PlaceId place) const {
    const std::vector<Pipeline::Block>& blocks = module_.pipeline->blocks;
    for (size_t b = 0; b < blocks.size(); ++b)
      if (const StageRequest& stage = schedule_.pipeline->stages[static_cast<size_t>(blocks[b].stage)];
          blocks[b].phase == Phase::Update && place_of(stage) == module_.place(place).name)
        return static_cast<int>(b);
    WEFT_CHECK(false, "a state is read at a place without a stage");
  }

  Module& module_;
  Graph& graph_;
  const Schedule& schedule_;
  std::vector<std::vector<size_t>> positions_;  // of a block's micro-batches in the order
  std::map<OpId, size_t> numbers_;
  std::map<std::pair<ValueId, PlaceId>, std::vector<TransferRequest>> moved_;
};

/// Every rank of the schedule has a program to run.
void check_idle_ranks(const Schedule& schedule, const std::vector<PlaceRequest>& places, Diags& diags) {
  std::set<int> busy;
  for (const PlaceRequest& place : places)
    for (const StageRequest& stage : schedule.pipeline->stages)
      if (place_of(stage) == place.name) busy.insert(place.ranks.begin(), place.ranks.end());
  for (const PlaceRequest& place : places)
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
  const std::vector<PlaceRequest> places = places_of(env.schedule);
  make_places(module, places);
  Graph& graph = module.graph;
  if (!env.schedule.pipeline) {
    if (module.places.size() > 1) {
      env.diags.error("places-without-pipeline", env.schedule.places[1].loc,
                      "several places need `pipeline: {stages: ...}` to say which nodes run where");
      return;
    }
    return set_place(graph, {0});
  }
  number_ports(graph);
  Stages stages(module, env.schedule, env.target, env.diags);
  stages.assign();
  check_idle_ranks(env.schedule, places, env.diags);
  if (!env.diags.ok()) return;
  const std::vector<Pipeline::Block> blocks = stages.number_blocks();
  check_lengths(module, env.schedule, blocks, env.diags);
  if (!env.diags.ok()) return;
  module.pipeline = pipeline_order(env.schedule, blocks, stages.reads(), env.diags);
  if (!module.pipeline) return;
  Movement movement(module, env.schedule);
  movement.run();
  if (module.training) movement.carry_states(stages);
}

}  // namespace weftc

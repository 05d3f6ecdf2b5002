// Gives memory to values that other steps than kernels read from memory, so that fusion need not handle them:
//
//   y = AllReduce(%w)  with a constant w    ->    %w.copy = Reshape(%w), y = AllReduce(%w.copy)
//   If returns its parameter %x             ->    %x.copy = Reshape(%x), If returns %x.copy
//   Chunk(%w) reads a constant w whole      ->    the constant stands in the body of the Chunk
//   state a -> %b, b is an input            ->    state a -> Reshape(%b)
//
// A copy is a Reshape that keeps the shape (ir/value_memory.h); fuse-regions makes a kernel of it. After this, operands
// of collectives, conditions and values that a loop starts from lie in buffers, and each result of a region has a
// buffer of its own. Kernels that a transform made are not entered.
#include <algorithm>
#include <map>

#include "ir/base/contains.h"
#include "ir/value_memory.h"
#include "passes/fusion/kernel_values.h"
#include "passes/passes.h"

namespace weftc {

namespace {

/// Inserts a copy of a value after it: a Reshape to the shape that it has already (is_copy), in the stage of the value,
/// else in that of its reader.
ValueId add_copy(Graph& graph, ValueId v, OpId reader = {}) {
  const Op& like = graph.producer_op(v);
  NewOp made = copy_of(like);
  made.kind = OpKind::Reshape;
  made.inputs = {v};
  made.results = {graph.type(v)};
  made.attrs = {{"allowzero", int64_t{1}}, {"shape", graph.type(v).dims()}};
  made.name = graph.value(v).name + ".copy";
  made.port = {};
  made.mechanism = Mechanism::Streams;
  if (!made.block && reader) made.block = graph.op(reader).block;
  return graph.result(graph.add(std::move(made), graph.next(graph.producer(v))));
}

bool is_kind(const Graph& graph, ValueId v, OpKind kind) { return v && graph.producer_op(v).kind == kind; }

bool is_true(const Module& module, const Graph& graph, ValueId v) {
  return is_kind(graph, v, OpKind::Constant) &&
         module.constants.tensor(graph.producer_op(v).constant("value")).int_at(0);
}

/// Inserts a Constant op of one true before `before`.
ValueId add_true(Module& module, Graph& graph, const Op& like, OpId before) {
  NewOp made;
  made.kind = OpKind::Constant;
  made.results = {{DType::Bool, {}, {}}};
  made.attrs = {{"value", module.constants.add(like.name + "/true", Tensor::scalar(DType::Bool, 1))}};
  made.place = like.place;
  made.name = like.name + "/true";
  made.origins = like.origins;
  return graph.result(graph.add(std::move(made), before));
}

/// A loop that may end early starts from a condition in memory; other loops need no condition.
void store_condition(Module& module, Graph& graph, OpId loop) {
  const ValueId start = graph.op(loop).inputs[1];
  Graph& body = graph.edit(loop).regions[0];
  const ValueId inner = body.inputs()[1], next = body.outputs()[0].value;
  if (start && !is_kind(graph, start, OpKind::Constant)) return;
  const bool starts = !start || is_true(module, graph, start);
  const Op like = graph.op(loop);
  if (starts && (is_true(module, body, next) || next == inner)) {
    if (!body.value(inner).uses.empty()) body.replace_uses(inner, add_true(module, body, like, body.first()));
    return;
  }
  graph.set_input(loop, 1, add_copy(graph, start ? start : add_true(module, graph, like, loop), loop));
}

/// Copies the inputs that a Transfer moves: a Transfer moves one micro-batch's value, but an input holds all of them.
void copy_moved_inputs(Graph& graph) {
  for (OpId id : graph.order())
    if (graph.op(id).kind == OpKind::Transfer &&
        is_kind(graph, memory_of(graph, graph.op(id).inputs[0]), OpKind::Input))
      graph.set_input(id, 0, add_copy(graph, graph.op(id).inputs[0]));
}

/// Copies the constants that are operands of a collective, conditions, or values that a loop starts from.
void copy_stored_operands(Module& module, Graph& graph) {
  for (OpId id : graph.order()) {
    const OpKind kind = graph.op(id).kind;  // an added op may move the op itself
    size_t first = 0, end = 0;
    if (category(graph.op(id)) == Category::Collective || kind == OpKind::If) end = 1;
    if (kind == OpKind::Loop) {
      store_condition(module, graph, id);
      const ValueId trips = graph.op(id).inputs[0];  // no trips, in contrast to a count of 0 in the Plan
      if (is_kind(graph, trips, OpKind::Constant) && !is_true(module, graph, trips))
        graph.set_input(id, 0, add_copy(graph, trips, id));
      first = 2, end = 2 + static_cast<size_t>(graph.op(id).integer("carried"));
    }
    const bool holds = kind == OpKind::Fused || kind == OpKind::Chunk;
    if (holds) end = graph.op(id).inputs.size();
    for (size_t i = first; i < end; ++i) {
      const Op& reader = graph.op(id);
      if (!is_kind(graph, reader.inputs[i], OpKind::Constant) || (holds && reads_weights(reader, i))) continue;
      // An operand that a Chunk reads as a whole is copied inside of it, by the stage that needs the operand.
      const bool sinks = reader.kind == OpKind::Chunk &&
                         graph.type(reader.inputs[i]) == reader.regions[0].type(reader.regions[0].inputs()[i]);
      if (!sinks) graph.set_input(id, i, add_copy(graph, reader.inputs[i], id));
    }
  }
}

/// True if a Transfer makes or reads the value, perhaps through Reshapes: such a value belongs to one micro-batch.
bool is_moved(const Graph& graph, ValueId v) {
  if (is_kind(graph, v, OpKind::Transfer)) return true;
  const auto& uses = graph.value(v).uses;
  return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
    if (!use.op) return false;
    const Op& reader = graph.op(use.op);
    return reader.kind == OpKind::Transfer || (reader.kind == OpKind::Reshape && is_moved(graph, reader.outputs[0]));
  });
}

/// Copies results of the graph that are constants. Results of a region must not share memory with its parameters, with
/// values that a Transfer moves, or with each other, except for values that a loop passes on unchanged.
void copy_stored_results(const Module& module, Graph& graph, const Op* owner) {
  std::vector<ValueId> seen;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId v = graph.outputs()[i].value;
    const bool loop = owner && owner->kind == OpKind::Loop;
    if (loop && (graph.inputs()[i + 1] == v || (i == 0 && is_true(module, graph, v)))) continue;
    const ValueId memory = memory_of(graph, v);
    const bool twice = owner && contains(seen, memory);
    seen.push_back(memory);
    const bool lent = is_kind(graph, memory, OpKind::Input) || is_moved(graph, memory);
    if (is_kind(graph, v, OpKind::Constant) || (owner && (twice || lent))) graph.set_output(i, add_copy(graph, v));
  }
}

/// True if a region may make the value itself: a constant, a pattern, views of constants.
bool is_sinkable(const Graph& graph, ValueId v) {
  const Op& op = graph.producer_op(v);
  if (op.kind == OpKind::Constant || is_pattern(op)) return true;
  return is_load_view(op) && op.outputs.size() == 1 && is_sinkable(graph, op.inputs[0]);
}

/// The value made again inside a region, before `before`.
ValueId sink(const Graph& graph, ValueId v, Graph& region, OpId before, const std::string& name) {
  const Op& op = graph.producer_op(v);
  NewOp made = copy_of(op);
  made.results = {graph.type(v)};
  made.result_names = {name};
  for (ValueId input : op.inputs) made.inputs.push_back(sink(graph, input, region, before, graph.value(input).name));
  return region.result(region.add(std::move(made), before));
}

/// Constants that a Chunk reads whole are placed in its body, where they are literals or weights like any other.
void sink_constants(Graph& graph, OpId chunk) {
  Graph& region = graph.edit(chunk).regions[0];
  for (size_t i = graph.op(chunk).inputs.size(); i-- > 0;) {
    const ValueId outer = graph.op(chunk).inputs[i], parameter = region.inputs()[i];
    if (!is_sinkable(graph, outer) || graph.type(outer) != region.type(parameter)) continue;
    region.replace_uses(parameter, sink(graph, outer, region, region.first(), region.value(parameter).name + ".again"));
    region.erase(region.producer(parameter));
    graph.remove_input(chunk, i);
  }
}

/// Copies outputs that share memory with a state, which the program overwrites. These are the old value of a state, and
/// next values of states that are also an input or the next value of another state (two states that swap, one that
/// shifts into another).
void copy_shared_states(const Module& module, Graph& graph) {
  std::vector<ValueId> states, seen;
  for (const State& state : module.states) states.push_back(graph.find_value(state.input));
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Graph::Output output = graph.outputs()[i];
    const ValueId memory = memory_of(graph, output.value);
    const bool is_next = std::any_of(module.states.begin(), module.states.end(),
                                     [&](const State& state) { return state.output == output.name; });
    const bool is_shared =
        is_next ? is_kind(graph, memory, OpKind::Input) || contains(seen, memory) : contains(states, memory);
    if (is_next) seen.push_back(memory);
    if (is_shared) graph.set_output(i, add_copy(graph, output.value));
  }
}

/// One graph: operands, then regions, then results, because a region's results are judged by its own memory.
void lay_out_memory(Module& module, Graph& graph, const Op* owner) {
  copy_stored_operands(module, graph);
  if (owner && owner->kind == OpKind::Chunk) copy_moved_inputs(graph);
  for (OpId id : graph.order()) {
    if (graph.op(id).kind == OpKind::Chunk) sink_constants(graph, id);
    Op& op = graph.edit(id);
    if (op.kind == OpKind::Fused) continue;
    for (Graph& inner : op.regions) lay_out_memory(module, inner, &op);
  }
  copy_stored_results(module, graph, owner);
}

/// Notes a block at each place; prefers one that runs once after the micro-batches.
void note_blocks(const Module& module, const Graph& graph, std::map<uint32_t, int>& blocks) {
  const auto is_after = [&](int block) {
    return module.pipeline->blocks[static_cast<size_t>(block)].turn == Turn::After;
  };
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (op.block && op.place) {
      const auto [at, is_new] = blocks.emplace(op.place.index, *op.block);
      if (!is_new && is_after(*op.block) && !is_after(at->second)) at->second = *op.block;
    }
    if (op.kind == OpKind::Chunk)
      for (const Graph& region : op.regions) note_blocks(module, region, blocks);
  }
}

/// An input that is an output as well is copied in a block at its place.
void give_copies_blocks(Module& module) {
  std::map<uint32_t, int> blocks;
  note_blocks(module, module.graph, blocks);
  for (const OpId id : module.graph.order()) {
    Op& op = module.graph.edit(id);
    if (op.kind == OpKind::Reshape && !op.block && blocks.contains(op.place.index)) op.block = blocks[op.place.index];
  }
}

}  // namespace

void lay_in_memory(Module& module, const Env&) {
  lay_out_memory(module, module.graph, nullptr);
  copy_shared_states(module, module.graph);
  if (module.pipeline) give_copies_blocks(module);
}

}  // namespace weftc

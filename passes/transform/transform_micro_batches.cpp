// pipeline: makes the whole graph one Chunk over the batch (C6). Its ops keep their places; the order of (stage,
// micro-batch) pairs is a table of the Plan.
#include <algorithm>
#include <numeric>

#include "passes/transform/transforms.h"

namespace weftc {

bool is_state(const Module& module, ValueId input) {
  const Graph& graph = module.graph;
  const std::optional<int> port = graph.producer_op(input).port;
  return std::ranges::any_of(module.states, [&](const State& state) {
    const ValueId first = graph.find_value(state.input);
    return first == input || (first && port && graph.producer_op(first).port == port);
  });
}

std::set<ValueId> values_of(const Module& module, const std::function<bool(ValueId input)>& is_one) {
  const Graph& graph = module.graph;
  std::set<ValueId> found;
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    const bool depends = op.kind == OpKind::Input
                             ? is_one(op.outputs[0])
                             : std::ranges::any_of(op.inputs, [&](ValueId v) { return v && found.contains(v); });
    if (depends) found.insert(op.outputs.begin(), op.outputs.end());
  }
  return found;
}

/// The number of neighbouring samples that a rank has of the value.
static int64_t rows_together(const Module& module, ValueId v) {
  const TensorType& type = module.graph.type(v);
  int64_t rows = type.shape[0].bound;
  for (const Digit& d : digits_of(type.layout, 0, module.mesh(module.graph, module.graph.producer_op(v).place)))
    rows = std::min(rows, d.block);
  return rows;
}

/// The same for each number of rows: a count that suits the slices of all values of so many rows.
static std::map<int64_t, int64_t> rows_together_everywhere(const Module& module) {
  std::map<int64_t, int64_t> common;
  for (const OpId id : module.graph.order())
    for (const ValueId v : module.graph.op(id).outputs)
      if (const Shape& shape = module.graph.type(v).shape; !shape.empty() && !shape[0].is_run_time()) {
        int64_t& rows = common[shape[0].bound];
        rows = std::gcd(rows, rows_together(module, v));
      }
  return common;
}

std::map<ValueId, AxisState> batch_seeds(const Module& module, int micro_batches, Spread spread) {
  const Graph& graph = module.graph;
  std::map<int64_t, int64_t> common;
  if (spread == Spread::OfAllPlaces) common = rows_together_everywhere(module);
  std::map<ValueId, AxisState> seeds;
  for (ValueId v : graph.inputs()) {
    const TensorType& type = graph.type(v);
    if (type.shape.empty() || type.shape[0].is_run_time() || is_state(module, v)) continue;
    const int64_t rows = spread == Spread::OfInputs ? rows_together(module, v) : common.at(type.shape[0].bound);
    if (rows % micro_batches == 0) seeds[v] = AxisState::sliced(0, rows / micro_batches);
  }
  return seeds;
}

std::optional<ChunkTypes> type_by_spread(const Module& module, int micro_batches, const TypingOf& typing_of) {
  std::optional<ChunkTypes> first;
  for (const Spread spread : {Spread::OfInputs, Spread::OfAllPlaces}) {
    const std::map<ValueId, AxisState> seeds = batch_seeds(module, micro_batches, spread);
    if (seeds.empty()) continue;
    ChunkTypes typing = typing_of(seeds);
    if (typing.refusal.empty()) return typing;
    if (!first) first = std::move(typing);
  }
  return first;
}

void report_uncut(const Graph& graph, int micro_batches, const Loc& loc, Diags& diags) {
  for (const ValueId v : graph.inputs()) {
    const Shape& shape = graph.type(v).shape;
    if (shape.empty() || !shape[0].is_run_time()) continue;
    diags.error(
        "micro-batches-run-time", loc,
        "micro-batches are parts of a fixed number, but the first dimension of '{}' ({}) has a run-time length: "
        "pin it with --dim",
        printable(graph.value(v).name), shape_text(shape));
    return;
  }
  diags.error("micro-batches-indivisible", loc, "{} micro-batches do not divide the first dimension of any input",
              micro_batches);
}

/// Which nodes of the model an op comes from: " (of BatchNormalization 'bn')".
static std::string nodes_text(const Module& module, const Op& op) {
  std::vector<std::string> nodes;
  for (const OriginId id : op.origins) {
    const Origin& origin = module.origins[id.index];
    nodes.push_back(format("{} '{}'", origin.op_type, printable(origin.name)));
    if (origin.op_type == "BatchNormalization")
      nodes.back() += ", whose statistics are of all of the batch; 'accumulate' takes 'statistics: micro-batch'";
  }
  return nodes.empty() ? "" : " (of " + join(nodes, ", ") + ")";
}

void report_untyped(const Module& module, const ChunkTypes& typing, int count, const Loc& loc, Diags& diags) {
  const Op* op = typing.refused ? &module.graph.op(typing.refused) : nullptr;
  const std::string nodes = op ? nodes_text(module, *op) : "";
  if (op && category(*op) == Category::Region)
    diags.error("micro-batches-region-unsupported", loc,
                "the model cannot run in {} micro-batches: {} '{}'{} has a body, which is not cut into them", count,
                op_def(*op).name, op->name, nodes);
  else
    diags.error("micro-batches-reshard", loc, "the model cannot run in {} micro-batches: {}{}", count, typing.refusal,
                nodes);
}

/// All that computes.
static std::optional<ChunkTypes> type_in_micro_batches(const Module& module, int count, const Loc& loc, Diags& diags) {
  const Graph& graph = module.graph;
  std::vector<OpId> ops;
  for (OpId id : graph.order())
    if (category(graph.op(id)) != Category::Source) ops.push_back(id);
  const auto typing_of = [&](const auto& seeds) { return type_in_chunks(module, graph, ops, seeds, count); };
  std::optional<ChunkTypes> typing = type_by_spread(module, count, typing_of);
  if (!typing) {
    report_uncut(graph, count, loc, diags);
    return {};
  }
  if (!typing->refusal.empty()) {
    report_untyped(module, *typing, count, loc, diags);
    return {};
  }
  for (const Graph::Output& out : graph.outputs()) {
    const int time = static_cast<int>(module.mesh(graph, graph.producer_op(out.value).place).size());
    if (typing->inside.contains(out.value) && !typing->inside.at(out.value)[time].is(AxisState::Kind::R)) continue;
    diags.error("micro-batches-output", loc, "output '{}' does not depend on the micro-batch", out.name);
    return {};
  }
  return typing;
}

void chunk_micro_batches(Module& module, const Schedule& schedule, Diags& diags) {
  const int count = module.pipeline->micro_batches;
  const Loc& loc = schedule.pipeline->micro_batches_loc;
  const std::optional<ChunkTypes> typing = module.training ? type_training_in_micro_batches(module, count, loc, diags)
                                                           : type_in_micro_batches(module, count, loc, diags);
  if (!typing) return;
  module.transforms.push_back({format("pipeline of {} micro-batches", count), schedule.pipeline->loc});
  const TransformId transform{static_cast<uint32_t>(module.transforms.size() - 1)};
  const OpId chunk = make_chunk(module, *typing, count, "pipeline", Mechanism::Pipeline, transform);
  module.graph.edit(chunk).place = {};  // its ops have places and blocks of their own
  module.graph.edit(chunk).block.reset();
}

}  // namespace weftc

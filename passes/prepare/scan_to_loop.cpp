// A Scan becomes a Loop whose trips read element t of each sequence and collect the scan outputs.
//
//   s, ys = Scan(s0, xs) { s, x -> s1, y }    ->    s, ys = Loop(T, , s0) { t, s, xs -> s1, y }  with  x = Gather(xs,
//   t)
//
// A direction of 1 reads from the end, or reverses the collected values. An axis other than 0 is read along that axis,
// or moved to it afterwards. The batch of Scan-8 becomes a Loop around a Scan of one batch element.
#include "passes/prepare/scan_to_loop.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/ops/view.h"

namespace weftc {

namespace {

/// Attributes of a Scan, one entry for each sequence or scan output.
struct ScanLists {
  size_t states, sequences, outputs;
  std::vector<int64_t> input_axes, input_directions, output_axes, output_directions;
  Extent trips;
};

/// A list attribute, all 0 where it is absent; nothing after reporting.
std::optional<std::vector<int64_t>> list_of(const OpView& op, const char* attr, size_t count, bool is_direction) {
  std::vector<int64_t> list = ints_of(op.op(), attr);
  if (list.empty()) list.assign(count, 0);
  if (list.size() != count)
    return op.fail("scan-list", "'{}' has {} entries, expected {}", attr, list.size(), count), std::nullopt;
  for (int64_t entry : list)
    if (is_direction && entry != 0 && entry != 1)
      return op.fail("scan-direction", "'{}' holds {}, expected 0 or 1", attr, entry), std::nullopt;
  return list;
}

/// Finds the axes of the sequences and how long they are; false after reporting.
bool find_trips(const OpView& op, ScanLists& lists) {
  for (size_t i = 0; i < lists.sequences; ++i) {
    const TensorType& type = op.type(static_cast<int>(lists.states + i));
    int64_t& axis = lists.input_axes[i];
    if (axis < -type.ndim() || axis >= type.ndim())
      return op.fail("scan-axis", "sequence {} has no dimension {}", i, axis);
    axis = from_front(axis, type.ndim());
    const Extent& extent = type.shape[static_cast<size_t>(axis)];
    const bool is_open = extent.is_run_time() || lists.trips.is_run_time();
    if (i && !(length_of(extent) == length_of(lists.trips)))
      return op.fail(is_open ? "scan-length-unsupported" : "scan-lengths",
                     "sequences {} and {} have {} and {} elements{}", 0, i, length_of(lists.trips).text(),
                     length_of(extent).text(), is_open ? "; pin these lengths with --dim" : "");
    lists.trips = extent;
  }
  return true;
}

std::optional<ScanLists> lists_of(const OpView& op) {
  const Graph& body = op.op().regions[0];
  const int64_t sequences = int_of(op.op(), "num_scan_inputs");
  ScanLists lists{};
  lists.sequences = static_cast<size_t>(sequences);
  lists.states = static_cast<size_t>(op.op().integer("states"));
  if (lists.states > body.outputs().size())
    return op.fail("scan-count", "{} states, but the subgraph has {} outputs", lists.states, body.outputs().size()),
           std::nullopt;
  lists.outputs = body.outputs().size() - lists.states;
  const auto input_axes = list_of(op, "scan_input_axes", lists.sequences, false),
             input_directions = list_of(op, "scan_input_directions", lists.sequences, true),
             output_axes = list_of(op, "scan_output_axes", lists.outputs, false),
             output_directions = list_of(op, "scan_output_directions", lists.outputs, true);
  if (!input_axes || !input_directions || !output_axes || !output_directions) return {};
  lists.input_axes = *input_axes, lists.input_directions = *input_directions;
  lists.output_axes = *output_axes, lists.output_directions = *output_directions;
  if (!find_trips(op, lists)) return {};
  return lists;
}

/// The Loop under construction: its region, and the region's values for the Scan's operands.
struct LoopDraft {
  LoopDraft(Module& module, const Op& scan) : body(module, region, {}, scan) {
    body.parameter("iteration", {DType::I64, {}, {}});
    body.parameter("condition", {DType::Bool, {}, {}});
  }
  ValueId parameter(const Graph& graph, ValueId operand) {
    operands.push_back(operand);
    return body.parameter("operand", graph.type(operand));
  }
  ValueId iteration() const { return region.inputs()[0]; }

  Graph region;
  Builder body;
  std::vector<ValueId> operands;
};

/// Inserts the draft before the Scan.
OpId add_loop(Graph& graph, OpId before, LoopDraft&& draft, const Op& scan, ValueId trips, size_t carried) {
  NewOp loop = copy_of(scan);
  loop.kind = OpKind::Loop;
  loop.attrs = {{"carried", static_cast<int64_t>(carried)}};
  loop.inputs = {trips, {}};
  loop.inputs.insert(loop.inputs.end(), draft.operands.begin(), draft.operands.end());
  loop.results.resize(scan.outputs.size());
  loop.name += "/loop";
  loop.regions.push_back(std::move(draft.region));
  return graph.add(std::move(loop), before);
}

/// One element of the batch a trip: a Scan of its own, with its results collected.
OpId add_batch_loop(Module& module, Graph& graph, OpId id, const Op& scan, int64_t batch) {
  LoopDraft draft(module, scan);
  const size_t own = static_cast<size_t>(scan.integer("states") + scan.integer("num_scan_inputs"));
  NewOp inner = copy_of(scan);
  std::erase_if(inner.attrs, [](const Attr& attr) { return attr.name == "batched"; });
  inner.regions = scan.regions;
  inner.results.resize(scan.outputs.size());
  for (size_t i = 0; i < scan.inputs.size(); ++i) {
    const ValueId all = draft.parameter(graph, scan.inputs[i]);
    inner.inputs.push_back(i < own ? draft.body.op(OpKind::Gather, {all, draft.iteration()},
                                                   {{"axis", int64_t{0}}, {"inside", int64_t{1}}})
                                   : all);
  }
  inner.name += "/element";
  const OpId made = draft.region.add(std::move(inner));
  draft.region.add_output(draft.region.inputs()[1], "condition");
  for (ValueId v : std::vector<ValueId>(draft.region.op(made).outputs))
    draft.region.add_output(v, draft.region.value(v).name);
  Builder build(module, graph, id, scan);
  return add_loop(graph, id, std::move(draft), scan, build.constant(Tensor::scalar(DType::I64, double(batch))), 0);
}

/// `values` turned along an axis.
ValueId reversed(Builder& build, ValueId values, int64_t axis) {
  const Dims dims = build.dims(values);
  const Extent extent = build.type(values).shape[static_cast<size_t>(axis)];
  if (extent.is_run_time()) return elements_from(build, values, axis, extent, length_of(extent) - 1, -1);
  Dims starts(dims.size(), 0), ends = dims, steps(dims.size(), 1);
  const auto a = static_cast<size_t>(axis);
  starts[a] = dims[a] - 1, ends[a] = INT64_MIN, steps[a] = -1;
  return build.op(OpKind::Slice, {values}, {{"ends", ends}, {"starts", starts}, {"steps", steps}});
}

/// The collected values, in the order and along the axis that the attributes ask for.
ValueId collected(Builder& build, ValueId values, int64_t direction, int64_t axis) {
  if (direction) values = reversed(build, values, 0);
  const auto ndim = static_cast<int64_t>(build.dims(values).size());
  axis = from_front(axis, ndim);
  if (axis == 0) return values;
  std::vector<int64_t> perm;
  for (int64_t d = 1; d < ndim; ++d) perm.push_back(d);
  perm.insert(perm.begin() + axis, 0);
  return build.transpose(values, perm);
}

}  // namespace

std::optional<OpId> add_loop_of_scan(Module& module, Graph& graph, OpId id, Diags& diags) {
  const Op scan = graph.op(id);
  const OpView view(module, graph, scan, &diags);
  if (scan.has("batched")) {
    if (view.type(0).ndim() < 1) return view.fail("scan-batch", "operand 0 has no batch"), std::nullopt;
    return add_batch_loop(module, graph, id, scan, view.dims(0)[0]);
  }
  const std::optional<ScanLists> lists = lists_of(view);
  if (!lists) return {};
  LoopDraft draft(module, scan);
  std::vector<ValueId> arguments;
  for (size_t i = 0; i < scan.inputs.size(); ++i) arguments.push_back(draft.parameter(graph, scan.inputs[i]));
  for (size_t i = 0; i < lists->sequences; ++i) {
    ValueId& sequence = arguments[lists->states + i];
    ValueId index = draft.iteration();
    if (lists->input_directions[i])
      index = draft.body.op(OpKind::Sub, {draft.body.length(length_of(lists->trips) - 1), index});
    sequence =
        draft.body.op(OpKind::Gather, {sequence, index}, {{"axis", lists->input_axes[i]}, {"inside", int64_t{1}}});
  }
  const std::vector<ValueId> results = inline_region(draft.region, scan.regions[0], arguments);
  draft.region.add_output(draft.region.inputs()[1], "condition");
  for (ValueId v : results) draft.region.add_output(v, draft.region.value(v).name);
  Builder build(module, graph, id, scan);
  return add_loop(graph, id, std::move(draft), scan, build.length(length_of(lists->trips)), lists->states);
}

bool replace_scan(Module& module, Graph& graph, OpId id, OpId loop, Diags& diags) {
  const Op scan = graph.op(id);
  const OpView view(module, graph, scan, &diags);
  std::vector<ValueId> made = graph.op(loop).outputs;
  if (!scan.has("batched")) {
    const ScanLists lists = *lists_of(view);
    Builder build(module, graph, id, scan);
    for (size_t k = 0; k < lists.outputs; ++k) {
      ValueId& output = made[lists.states + k];
      const int64_t axis = lists.output_axes[k], ndim = graph.type(output).ndim();
      if (axis < -ndim || axis >= ndim) return view.fail("scan-axis", "scan output {} has no dimension {}", k, axis);
      output = collected(build, output, lists.output_directions[k], axis);
    }
  }
  for (size_t r = 0; r < scan.outputs.size(); ++r) {
    const std::string name = graph.value(scan.outputs[r]).name;
    graph.rename(scan.outputs[r], name + "/scan");
    graph.rename(made[r], name);
    graph.replace_uses(scan.outputs[r], made[r]);
  }
  graph.erase(id);
  return true;
}

}  // namespace weftc

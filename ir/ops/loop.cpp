// Loop and Scan of ONNX. Scan outputs of a Loop become carried values: each trip replaces one element. Later passes
// then see carried values only. A Scan becomes a Loop once types are known (passes/prepare/scan_to_loop.cpp).
// (passes/prepare/scan_to_loop.cpp).
//
//   y, ys = Loop(5, , y0) { y -> y1, e }    ->    y, ys = Loop(5, , y0, zeros[5]) { i, y, ys -> y1, ys with e at i }
//
// If data may end a loop before its trip count, the trips are counted, and the result has that many elements.
#include <algorithm>
#include <set>

#include "ir/ops/formula.h"
#include "ir/ops/region.h"
#include "ir/ops/selection.h"
#include "ir/ops/step_loop.h"

namespace weftc {

static size_t carried_count(const Op& op) { return static_cast<size_t>(int_of(op, "carried")); }

/// Checks the condition before the first trip and after each trip.
static bool has_conditions(const OpView& op) {
  const auto is_condition = [](const TensorType& type) { return type.dtype == DType::Bool && type.count() == 1; };
  if ((!op.has(1) || is_condition(op.type(1))) && is_condition(output_type(op.op().regions[0], 0))) return true;
  return op.fail("loop-condition", "the condition must be one bool, before the loop and as its body's first output");
}

std::optional<Length> trip_count(const OpView& op) {
  if (!op.has(0)) return {};
  const std::optional<std::vector<Length>> counted = op.lengths(0);
  if (counted && counted->size() == 1) return maximum((*counted)[0], 0);
  const Op& producer = op.graph().producer_op(op.op().inputs[0]);
  if (producer.kind != OpKind::LengthOf) return {};
  const std::optional<Length> length = OpView(op.module(), op.graph(), producer).length();
  return length ? std::optional(maximum(*length, 0)) : std::nullopt;
}

/// True if a value follows from constants, and from `given` if that is set.
static bool is_certain(const Graph& graph, ValueId value, ValueId given = {}) {
  std::vector<ValueId> left{value};
  std::set<uint32_t> seen;
  while (!left.empty()) {
    const ValueId v = left.back();
    left.pop_back();
    if (!v || v == given || !seen.insert(v.index).second) continue;
    const Op& producer = graph.producer_op(v);
    if (producer.kind == OpKind::Input || !producer.regions.empty()) return false;
    left.insert(left.end(), producer.inputs.begin(), producer.inputs.end());
  }
  return true;
}

/// True if only a run knows the number of trips. For any other loop the conditions are constants, which may still have
/// to be computed.
static bool may_end_early(const OpView& op) {
  if (makes_all_trips(op)) return false;
  const Graph& body = op.op().regions[0];
  const bool begins = !op.has(1) || is_certain(op.graph(), op.op().inputs[1]);
  return !begins || !op.known(0) || !is_certain(body, body.outputs()[0].value, body.inputs()[1]);
}

/// The number of trips at which a loop is cut because the user bounds it. It is one more than allowed, so that a run
/// with too many trips is detected. Nothing if the loop makes fewer anyway.
static std::optional<int64_t> cut_trips(const OpView& op) {
  const int64_t allowed = op.op().integer_or("count_bound", -1);
  const std::optional<Length> trips = trip_count(op);
  return allowed < 0 || (trips && trips->high() <= allowed) ? std::nullopt : std::optional(allowed + 1);
}

/// The number of trips of a loop with scan outputs; nothing after reporting.
static std::optional<Extent> collected_extent(const OpView& op) {
  constexpr int64_t kMostTrips = int64_t{1} << 40;  // a larger number means that a condition ends the loop
  if (const std::optional<int64_t> most = cut_trips(op))
    return may_have_counts(op) ? std::optional(Extent{*most}) : std::nullopt;
  const std::optional<Length> trips = trip_count(op);
  if (!trips || trips->high() > kMostTrips) {
    op.fail("loop-scan-runtime-unsupported",
            "scan outputs need a trip count that bounds them: a number, one that follows from the lengths of the "
            "model, or a bound, which --dim NODE<=N gives the node");
    return {};
  }
  const Extent extent = op.extent(*trips);
  if (!may_end_early(op)) return extent;
  return may_have_counts(op) ? std::optional(Extent{extent.bound}) : std::nullopt;
}

/// Body outputs: condition, carried values, one element of each scan output. A carried value keeps its type in all
/// iterations. Scan outputs get a leading dim of the trip count.
static bool infer_loop(const OpView& op, std::vector<TensorType>& results) {
  const Graph& body = op.op().regions[0];
  const size_t carried = carried_count(op.op());
  for (int i : {0, 1})
    if (op.has(i) && op.type(i).count() != 1)
      return op.fail("loop-operand", "the {} has shape {}, expected one element", i ? "condition" : "trip count",
                     dims_text(op.dims(i)));
  if (!has_conditions(op)) return false;
  for (size_t i = 0; i < carried; ++i) {
    const TensorType type = output_type(body, 1 + i);
    const TensorType& initial = op.type(2 + static_cast<int>(i));
    if (type.dtype != initial.dtype || type.shape != initial.shape)
      return op.fail("loop-carried-type-unsupported", "carried value {} changes its type from {} {} to {} {}", i,
                     dtype_name(initial.dtype), shape_text(initial.shape), dtype_name(type.dtype),
                     shape_text(type.shape));
    results.push_back(type);
  }
  if (body.outputs().size() == 1 + carried) return true;
  const std::optional<Extent> trips = collected_extent(op);
  for (size_t i = 1 + carried; trips && i < body.outputs().size(); ++i) {
    TensorType type = output_type(body, i);
    type.shape.insert(type.shape.begin(), *trips);
    results.push_back(type);
  }
  return trips.has_value();
}

static bool collects_nothing(const OpView& op) { return op.op().outputs.size() == carried_count(op.op()); }

bool makes_all_trips(const OpView& op) {
  const Graph& body = op.op().regions[0];
  const auto is_true = [&](const Graph& graph, ValueId v) {
    const Op& producer = graph.producer_op(v);
    return producer.kind == OpKind::Constant && op.module().constants.tensor(producer.constant("value")).int_at(0);
  };
  ValueId next = body.outputs()[0].value;
  while (body.producer_op(next).kind == OpKind::Identity) next = body.producer_op(next).inputs[0];
  return (!op.has(1) || is_true(op.graph(), op.op().inputs[1])) && (next == body.inputs()[1] || is_true(body, next));
}

/// The trip count of a loop that is cut.
static ValueId fewer_trips(Builder& build, const OpView& op, int64_t most) {
  const ValueId limit = build.constant(Tensor::scalar(DType::I64, static_cast<double>(most)));
  return op.has(0) ? build.op(OpKind::Min, {op.op().inputs[0], limit}) : limit;
}

/// Shortens the scan outputs, which follow the carried values, to the number of trips. The last value counts the trips.
static std::vector<ValueId> first_trips(Builder& build, std::vector<ValueId> values, size_t carried) {
  const Extent made = build.counted_extent(values.back(), build.dims(values[carried])[0]);
  values.pop_back();
  for (size_t r = carried; r < values.size(); ++r) values[r] = shortened(build, values[r], 0, made);
  return values;
}

static std::vector<ValueId> decompose_loop(Builder& build, const OpView& op) {
  const Graph& region = op.op().regions[0];
  const std::vector<ValueId> inputs = op.op().inputs;
  const std::optional<int64_t> most = cut_trips(op);
  const size_t carried = carried_count(op.op()), results = op.op().outputs.size();
  const bool is_counted = most || may_end_early(op);
  if (!is_counted && !makes_all_trips(op)) {
    op.fail("loop-scan-length-unsupported",
            "a loop that collects an element a trip may end before its trip count: how many there are is known at run "
            "time only");
    return {};
  }
  StepLoop loop(build, "body", most ? fewer_trips(build, op, *most) : inputs[0], op.has(1) ? inputs[1] : ValueId{});
  std::vector<ValueId> arguments = {loop.iteration(), loop.condition()}, collected, next;
  for (size_t i = 0; i < carried; ++i) arguments.push_back(loop.carry(inputs[2 + i]));
  for (size_t r = carried; r < results; ++r) {
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): values move
    const TensorType type = op.result_type(static_cast<int>(r));
    collected.push_back(loop.carry(build.with_lengths(zeros(build, type.dtype, type.dims()), type.shape)));
  }
  if (is_counted) loop.carry(build.constant(Tensor::scalar(DType::I64, 0)));
  for (size_t i = 2 + carried; i < inputs.size(); ++i) arguments.push_back(loop.capture(inputs[i]));
  for (size_t p = 0; p < carried + 2; ++p)
    loop.body().graph().rename(arguments[p], region.value(region.inputs()[p]).name);
  const std::vector<ValueId> made = inline_region(loop.body().graph(), region, arguments);
  loop.go_on(made[0]);
  next.assign(made.begin() + 1, made.begin() + 1 + static_cast<long>(carried));
  for (size_t r = 0; r < collected.size(); ++r)
    next.push_back(with_element(loop.body(), collected[r], loop.iteration(), made[1 + carried + r]));
  if (is_counted) next.push_back((Term(loop.body(), loop.iteration()) + 1).value());
  loop.next(next);
  const std::vector<ValueId> values = loop.finish();
  return is_counted ? first_trips(build, values, carried) : values;
}

/// True if only shape arithmetic or data determines the length of a loop's scan outputs.
static bool has_trips_of_its_own(const OpView& op) {
  const OpView without_shapes(op.module(), op.graph(), op.op());
  return !collects_nothing(op) && (!trip_count(without_shapes) || may_end_early(op) || cut_trips(op));
}

/// Inputs: trip count or none, condition or none, `carried` initial values, captures. Results: the carried values, then
/// scan outputs, which have one element for each trip.
const OpDef kLoop{.kind = OpKind::Loop,
                  .name = "Loop",
                  .onnx = {"Loop"},
                  .attrs = {{.name = "carried", .type = AttrType::Int, .otherwise = 0, .is_own = true}},
                  .inputs = {2, -1},
                  .outputs = {1, -1},
                  .category = Category::Region,
                  .infer = infer_loop,
                  .decompose = decompose_loop,
                  .is_primitive = collects_nothing,
                  .is_typed_by_parts = has_trips_of_its_own,
                  .takes_strings = true};

/// Scan-8 has a batch whose elements are scanned one after another, one list of directions, and optional lengths.
static bool import_old_scan(Graph& graph, OpId op, const OpView& view) {
  if (view.has(0))
    return view.fail("scan-lengths-unsupported", "lengths of sequences (operand 0 of opset 8) are not supported");
  graph.remove_input(op, 0);
  Op& scan = graph.edit(op);
  scan.set("batched", int64_t{1});
  if (const AttrValue* directions = scan.find("directions")) {
    const AttrValue list = *directions;
    scan.set("scan_input_directions", list);
    scan.remove("directions");
  }
  return true;
}

/// The number of states follows from the number of operands without captures.
static bool import_scan(Graph& graph, OpId op, int opset, const OpView& view) {
  Op& scan = graph.edit(op);
  const int64_t operands = scan.integer("operands") - (opset < 9 ? 1 : 0);
  const int64_t states = operands - scan.integer_or("num_scan_inputs", 0);
  scan.remove("operands");
  if (states < 0 || states >= operands)
    return view.fail("scan-count", "'num_scan_inputs' is {}, but the node has {} operands", operands - states,
                     operands);
  scan.set("states", states);
  return opset >= 9 || import_old_scan(graph, op, view);
}

static bool infer_scan(const OpView&, std::vector<TensorType>&) {
  check_failed(__FILE_NAME__, __LINE__, "a Scan becomes a Loop before it has a type");
}

/// Inputs: initial states, `num_scan_inputs` sequences, captures. Results: the last states, then scan outputs.
const OpDef kScan{.kind = OpKind::Scan,
                  .name = "Scan",
                  .onnx = {"Scan", 8},
                  .attrs = {{"num_scan_inputs", AttrType::Int, {}, true},
                            {"scan_input_axes", AttrType::Ints},
                            {"scan_input_directions", AttrType::Ints},
                            {"scan_output_axes", AttrType::Ints},
                            {"scan_output_directions", AttrType::Ints},
                            {"directions", AttrType::Ints}},
                  .inputs = {1, -1},
                  .outputs = {1, -1},
                  .category = Category::Region,
                  .import = import_scan,
                  .infer = infer_scan,
                  .takes_strings = true};

}  // namespace weftc

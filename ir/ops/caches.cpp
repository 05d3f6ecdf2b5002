// Ops that carry a model's memory from one request to the next. TensorScatter (ONNX 24) writes new keys or values into
// a cache of fixed size. CausalConvWithState (ONNX 27) keeps the last elements that its windows need.
//
//   TensorScatter(cache, new, at)        ->  ScatterElements(cache, at + 0 1 2 ..., new)
//   CausalConvWithState(x, w, b, past)   ->  all = Concat(past, x);  y = Conv(all, w, b);  present = the end of `all`
#include "ir/ops/formula.h"
#include "ir/ops/operand_shapes.h"

namespace weftc {

namespace {

/// An update has the shape of the cache except along the axis, and an index for each sequence of the batch.
OperandShapes shapes_of_update(const OpView& op) {
  const Shape cache = op.type(0).shape;
  Shape update = cache;
  const size_t axis = static_cast<size_t>(*op.axis("axis", op.type(0).ndim()));
  if (op.type(1).ndim() == op.type(0).ndim()) update[axis] = op.type(1).shape[axis];
  return {{1, update}, {2, {cache[0]}}};
}

bool infer_tensor_scatter(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim());
  if (!axis) return false;
  if (*axis == 0) return op.fail("tensor-scatter-axis", "'axis' is 0, the dimension of the batch");
  if (!same_dtypes(op, 0, 2) || !have_shapes(op, shapes_of_update(op), "tensor-scatter-dims")) return false;
  const Extent room = op.type(0).shape[static_cast<size_t>(*axis)],
               length = op.type(1).shape[static_cast<size_t>(*axis)];
  if ((length_of(length) - length_of(room)).low() > 0)
    return op.fail("tensor-scatter-dims", "an update of {} does not fit a cache of {} along axis {}",
                   shape_text({length}), shape_text({room}), *axis);
  if (op.has(2) && op.type(2).dtype != DType::I64)
    return op.fail("tensor-scatter-indices", "write indices have element type {}, expected i64",
                   dtype_name(op.type(2).dtype));
  return infer_same(op, results);
}

/// An update is at most as long as the cache.
std::vector<LengthRelation> relate_tensor_scatter(const OpView& op) {
  std::vector<LengthRelation> relations = relations_of(op, shapes_of_update(op));
  const size_t axis = static_cast<size_t>(*op.axis("axis", op.type(0).ndim()));
  relations.push_back({"", length_of(op.type(1).shape[axis]), length_of(op.type(0).shape[axis]), true});
  return relations;
}

std::vector<ValueId> decompose_tensor_scatter(Builder& build, const OpView& op) {
  const int64_t axis = int_of(op.op(), "axis");
  const Shape cache = op.type(0).shape, update = op.type(1).shape;
  const Extent room = cache[static_cast<size_t>(axis)];
  Term at = positions(build, DType::I64, update[static_cast<size_t>(axis)], static_cast<int>(axis),
                      static_cast<int>(cache.size()));
  if (op.has(2)) {
    Shape column(cache.size(), Extent{1});
    column[0] = update[0];
    at = at + Term(build, op.op().inputs[2]).reshape_to(column);
  }
  if (text_of(op.op(), "mode") == "circular") at = at % Term(build, build.length(length_of(room)));
  const ValueId places = build.with_lengths(at.expand(bounds(update)).value(), update);
  return {build.op(OpKind::ScatterElements, {op.op().inputs[0], places, op.op().inputs[1]},
                   {{"axis", axis}, {"from_front", int64_t{1}}})};
}

// Operands by number, as ONNX lists them.
constexpr int kInput = 0, kWeight = 1, kBias = 2, kPast = 3;

/// The shapes of the operands, by those of the input and the weights.
OperandShapes shapes_of_conv(const OpView& op) {
  const Shape x = op.type(kInput).shape, weight = op.type(kWeight).shape;
  return {{kWeight, {x[1], {1}, weight[2]}}, {kBias, {x[1]}}, {kPast, {x[0], x[1], {weight[2].bound - 1}}}};
}

bool infer_causal_conv(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, kInput) || !same_dtypes(op)) return false;
  if (!has_ndim(op, kInput, 3, 3) || !has_ndim(op, kWeight, 3, 3)) return false;
  if (!is_fixed_dim(op, kInput, 1) || !is_fixed(op, kWeight)) return false;
  const Shape x = op.type(kInput).shape;
  const int64_t width = op.dims(kWeight)[2];
  if (width < 1) return op.fail("causal-conv-dims", "the weights have shape {}", dims_text(op.dims(kWeight)));
  if (!have_shapes(op, shapes_of_conv(op), "causal-conv-dims")) return false;
  const DType dtype = op.type(kInput).dtype;
  results = {{dtype, x, {}}, {dtype, {x[0], x[1], {width - 1}}, {}}};
  return true;
}

/// The input with the elements before it: the past state, or zeros.
Term with_past(Builder& build, const OpView& op) {
  const int64_t before = op.dims(kWeight)[2] - 1;
  const Term input(build, op.op().inputs[kInput]);
  if (before == 0) return input;
  if (op.has(kPast))
    return {build, build.op(OpKind::Concat, {op.op().inputs[kPast], input.value()}, {{"axis", int64_t{2}}})};
  return {build, build.op(OpKind::Pad, {input.value()}, {{"pads", Dims{0, 0, before, 0, 0, 0}}})};
}

/// The last elements of `all`: as many as the windows reach back.
Term next_state(Builder& build, const OpView& op, Term all) {
  const int64_t before = op.dims(kWeight)[2] - 1;
  const Extent length = op.type(kInput).shape[2];
  if (!length.is_run_time()) return all.slice(2, length.bound, length.bound + before);
  return pick(build, all, positions(build, DType::I64, before, 0, 1) + Term(build, build.length(length_of(length))), 2);
}

std::vector<ValueId> decompose_causal_conv(Builder& build, const OpView& op) {
  const Term all = with_past(build, op);
  std::vector<ValueId> operands{all.value(), op.op().inputs[kWeight]};
  if (op.has(kBias)) operands.push_back(op.op().inputs[kBias]);
  Term y(build, build.op(OpKind::Conv, operands, {{"group", all.dims()[1]}}));
  if (text_of(op.op(), "activation") != "none") y = y * y.apply(OpKind::Sigmoid);
  return {y.value(), next_state(build, op, all).value()};
}

}  // namespace

const OpDef kTensorScatter{.kind = OpKind::TensorScatter,
                           .name = "TensorScatter",
                           .onnx = {"TensorScatter", 24},
                           .attrs = {{"axis", AttrType::Int, -2}, choice("mode", "linear", "linear circular")},
                           .inputs = {2, 3},
                           .infer = infer_tensor_scatter,
                           .canonicalize = canonical_axis,
                           .relate = relate_tensor_scatter,
                           .decompose = decompose_tensor_scatter};

const OpDef kCausalConvWithState{.kind = OpKind::CausalConvWithState,
                                 .name = "CausalConvWithState",
                                 .onnx = {"CausalConvWithState", 27},
                                 .attrs = {choice("activation", "none", "none silu swish")},
                                 .inputs = {2, 4},
                                 .outputs = {1, 2},
                                 .infer = infer_causal_conv,
                                 .relate = [](const OpView& op) { return relations_of(op, shapes_of_conv(op)); },
                                 .decompose = decompose_causal_conv};

}  // namespace weftc

// Ops that carry what a model remembers from one request to the next: TensorScatter (ONNX 24) writes new keys or values
// into a cache of fixed size, CausalConvWithState (ONNX 27) keeps the last elements that its windows reach back to.
//
//   TensorScatter(cache, new, at)        ->  ScatterElements(cache, at + 0 1 2 ..., new)
//   CausalConvWithState(x, w, b, past)   ->  all = Concat(past, x);  y = Conv(all, w, b);  present = the end of `all`
#include "ir/ops/formula.h"

namespace weftc {

namespace {

bool infer_tensor_scatter(const OpView& op, std::vector<TensorType>& results) {
  for (int i = 0; i < op.inputs(); ++i)
    if (op.has(i) && !is_fixed(op, i)) return false;
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim());
  if (!axis) return false;
  const std::string& mode = text_of(op.op(), "mode");
  if (mode != "linear" && mode != "circular")
    return op.fail("tensor-scatter-mode", "'mode' is '{}', expected linear or circular", printable(mode));
  if (*axis == 0) return op.fail("tensor-scatter-axis", "'axis' is 0, the dimension of the batch");
  Dims update = op.dims(1);
  const Dims cache = op.dims(0);
  const bool fits = update.size() == cache.size() && update[*axis] <= cache[*axis];
  if (fits) update[*axis] = cache[*axis];
  if (!fits || update != cache || op.type(0).dtype != op.type(1).dtype)
    return op.fail("tensor-scatter-dims", "an update of {} {} does not fit a cache of {} {} along axis {}",
                   dtype_name(op.type(1).dtype), dims_text(op.dims(1)), dtype_name(op.type(0).dtype), dims_text(cache),
                   *axis);
  if (op.has(2) && (op.type(2).dtype != DType::I64 || op.dims(2) != Dims{cache[0]}))
    return op.fail("tensor-scatter-indices", "write indices are {} {}, expected i64 {}", dtype_name(op.type(2).dtype),
                   dims_text(op.dims(2)), dims_text(Dims{cache[0]}));
  return infer_same(op, results);
}

std::vector<ValueId> decompose_tensor_scatter(Builder& build, const OpView& op) {
  const int64_t axis = int_of(op.op(), "axis");
  const Dims cache = op.dims(0), update = op.dims(1);
  Term at = positions(build, DType::I64, update[axis], static_cast<int>(axis), op.type(0).ndim());
  if (op.has(2)) {
    Dims column(cache.size(), 1);
    column[0] = cache[0];
    at = at + Term(build, op.op().inputs[2]).reshape(column);
  }
  if (text_of(op.op(), "mode") == "circular") at = at % static_cast<double>(cache[axis]);
  const ValueId places = build.op(OpKind::Expand, {at.value()}, {{"shape", update}});
  return {build.op(OpKind::ScatterElements, {op.op().inputs[0], places, op.op().inputs[1]}, {{"axis", axis}})};
}

// Operands by number, as ONNX lists them.
constexpr int kInput = 0, kWeight = 1, kBias = 2, kPast = 3;

bool infer_causal_conv(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, kInput) || !same_dtypes(op)) return false;
  for (int i = 0; i < op.inputs(); ++i)
    if (op.has(i) && !is_fixed(op, i)) return false;
  const std::string& activation = text_of(op.op(), "activation");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return op.fail("causal-conv-activation", "'activation' is '{}', expected none, silu or swish",
                   printable(activation));
  if (!has_ndim(op, kInput, 3, 3) || !has_ndim(op, kWeight, 3, 3)) return false;
  const Dims x = op.dims(kInput), weight = op.dims(kWeight);
  const Dims state{x[0], x[1], weight[2] - 1};
  const bool fits = weight[0] == x[1] && weight[1] == 1 && weight[2] >= 1 &&
                    (!op.has(kBias) || op.dims(kBias) == Dims{x[1]}) && (!op.has(kPast) || op.dims(kPast) == state);
  if (!fits)
    return op.fail("causal-conv-dims", "operands have shapes {}, {}, {} and {}", dims_text(x), dims_text(weight),
                   op.has(kBias) ? dims_text(op.dims(kBias)) : "none",
                   op.has(kPast) ? dims_text(op.dims(kPast)) : "none");
  results = {{op.type(kInput).dtype, shape_of(x), {}}, {op.type(kInput).dtype, shape_of(state), {}}};
  return true;
}

/// The input behind what came before it: the past state, or zeros.
Term with_past(Builder& build, const OpView& op) {
  const Dims x = op.dims(kInput);
  const int64_t before = op.dims(kWeight)[2] - 1;
  const Term input(build, op.op().inputs[kInput]);
  if (before == 0) return input;
  if (op.has(kPast))
    return {build, build.op(OpKind::Concat, {op.op().inputs[kPast], input.value()}, {{"axis", int64_t{2}}})};
  return {build, build.op(OpKind::Pad, {input.value()}, {{"pads", Dims{0, 0, before, 0, 0, 0}}})};
}

std::vector<ValueId> decompose_causal_conv(Builder& build, const OpView& op) {
  const Term all = with_past(build, op);
  const int64_t length = all.dims()[2], channels = all.dims()[1];
  std::vector<ValueId> operands{all.value(), op.op().inputs[kWeight]};
  if (op.has(kBias)) operands.push_back(op.op().inputs[kBias]);
  Term y(build, build.op(OpKind::Conv, operands, {{"group", channels}}));
  if (text_of(op.op(), "activation") != "none") y = y * y.apply(OpKind::Sigmoid);
  return {y.value(), all.slice(2, length - (op.dims(kWeight)[2] - 1), length).value()};
}

}  // namespace

const OpDef kTensorScatter{.kind = OpKind::TensorScatter,
                           .name = "TensorScatter",
                           .onnx = {"TensorScatter", 24},
                           .attrs = {{"axis", AttrType::Int, -2}, {"mode", AttrType::Text, "linear"}},
                           .inputs = {2, 3},
                           .infer = infer_tensor_scatter,
                           .canonicalize = canonical_axis,
                           .decompose = decompose_tensor_scatter};

const OpDef kCausalConvWithState{.kind = OpKind::CausalConvWithState,
                                 .name = "CausalConvWithState",
                                 .onnx = {"CausalConvWithState", 27},
                                 .attrs = {{"activation", AttrType::Text, "none"}},
                                 .inputs = {2, 4},
                                 .outputs = {1, 2},
                                 .infer = infer_causal_conv,
                                 .decompose = decompose_causal_conv};

}  // namespace weftc

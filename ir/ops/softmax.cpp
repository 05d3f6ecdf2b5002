// Softmax, LogSoftmax, Hardmax (ONNX 13). Before opset 13 they work on the operand flattened to two dimensions at
// `axis`. The largest element is subtracted first, so that no exponential overflows. The pass grow-reduction merges the
// parts into one kernel.
//
//   Softmax(x)  ->  m = ReduceMax(x);  e = Exp(x - m);  e / ReduceSum(e)
#include <algorithm>

#include "ir/ops/gradient.h"

namespace weftc {

/// The default axis changed from 1 to -1 in opset 13, together with the flattening.
static bool import_softmax(Graph& graph, OpId id, int opset, const OpView& view) {
  Op& op = graph.edit(id);
  if (!view.op().has("axis")) op.set("axis", int64_t{opset < 13 ? 1 : -1});
  if (opset < 13) op.set("flatten", int64_t{1});
  return true;
}

/// The axis of a flattened operand may be one after the last dimension: rows of one element.
static bool infer_softmax(const OpView& op, std::vector<TensorType>& results) {
  const bool flat = int_of(op.op(), "flatten");
  if (!op.axis("axis", op.type(0).ndim(), flat) || !is_real_operand(op, 0)) return false;
  return infer_same(op, results);
}

/// The dimensions that one distribution runs over.
static std::vector<int64_t> softmax_axes(const OpView& op) {
  const int64_t ndim = op.type(0).ndim(), axis = from_front(int_of(op.op(), "axis"), ndim);
  return int_of(op.op(), "flatten") ? range_of(axis, ndim) : std::vector<int64_t>{axis};
}

static std::vector<ValueId> decompose_softmax(Builder& build, const OpView& op) {
  const std::vector<int64_t> axes = softmax_axes(op);
  const ValueId x = op.op().inputs[0];
  const ValueId largest = build.reduce(OpKind::ReduceMax, x, axes, true);
  const ValueId powers = build.op(OpKind::Exp, {subtract(build, x, largest)});
  return {divide(build, powers, build.reduce(OpKind::ReduceSum, powers, axes, true))};
}

/// x - m - log(sum(exp(x - m))): the logarithm of Softmax would be -infinity for small probabilities.
static std::vector<ValueId> decompose_log_softmax(Builder& build, const OpView& op) {
  const std::vector<int64_t> axes = softmax_axes(op);
  const ValueId x = op.op().inputs[0];
  const ValueId shifted = subtract(build, x, build.reduce(OpKind::ReduceMax, x, axes, true));
  const DType dtype = build.type(x).dtype;
  const ValueId powers = build.cast(build.op(OpKind::Exp, {shifted}), wide(dtype));
  const ValueId sum = build.reduce(OpKind::ReduceSum, powers, axes, true);
  return {subtract(build, shifted, build.cast(build.op(OpKind::Log, {sum}), dtype))};
}

/// Number of elements of dimensions `first` to `last` - 1.
static Extent elements_of(const OpView& op, int64_t first, int64_t last) {
  Length count = 1;
  for (int64_t d = first; d < last; ++d) count = count * length_of(op.type(0).shape[static_cast<size_t>(d)]);
  return op.extent(count);
}

/// 1 at the first largest element, 0 elsewhere.
static std::vector<ValueId> decompose_hardmax(Builder& build, const OpView& op) {
  const DType dtype = op.type(0).dtype;
  const int64_t ndim = op.type(0).ndim(), axis = from_front(int_of(op.op(), "axis"), ndim);
  ValueId x = op.op().inputs[0];
  const bool flat = int_of(op.op(), "flatten");
  const int64_t along = flat ? 1 : axis;
  if (flat) x = build.reshape_to(x, {elements_of(op, 0, axis), elements_of(op, axis, ndim)});
  Shape positions(build.dims(x).size(), {1, {}});
  positions[static_cast<size_t>(along)] = build.type(x).shape[static_cast<size_t>(along)];
  const ValueId largest = build.op(OpKind::ArgMax, {x}, {{"axis", along}, {"keepdims", int64_t{1}}});
  const ValueId position =
      build.with_lengths(build.op(OpKind::Iota, {}, {{"axis", along}, {"shape", bounds(positions)}}), positions);
  const ValueId result = build.cast(build.op(OpKind::Equal, {position, largest}), dtype);
  return {flat ? build.reshape_to(result, op.type(0).shape) : result};
}

/// Whether some reader replaces the NaN in the result of a row with only -infinity: Attention does.
static bool is_replaced(const Graph& graph, ValueId value) {
  return std::ranges::any_of(graph.value(value).uses, [&](const Use& use) {
    const Op& reader = graph.op(use.op);
    if (reader.kind == OpKind::Cast) return is_replaced(graph, reader.outputs[0]);
    return reader.kind == OpKind::Where || reader.kind == OpKind::IsNaN;
  });
}

/// A row with only -infinity gives NaN and its derivative is NaN. If a reader replaces that NaN, the derivative there
/// is 0.
static Derivatives gradient_of_softmax(const BackwardStep& s) {
  const Term result = s.out();
  const Term y =
      is_replaced(s.build.graph(), s.op.outputs[0]) ? result.apply(OpKind::IsNaN).choose(s.zero(), result) : result;
  const Term sum = (s.g * y).reduce(OpKind::ReduceSum, softmax_axes(s.view), true);
  return {y * (s.g - sum)};
}

static Derivatives gradient_of_log_softmax(const BackwardStep& s) {
  return {s.g - s.out().apply(OpKind::Exp) * s.g.reduce(OpKind::ReduceSum, softmax_axes(s.view), true)};
}

static OpDef softmax(OpKind kind, const char* name, DecomposeFn decompose, GradientFn gradient) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name};
  def.attrs = {{"axis", AttrType::Int, -1}, flag("flatten", 0)};
  def.import = import_softmax;
  def.infer = infer_softmax;
  def.canonicalize = canonical_axis;
  def.gradient = gradient;
  def.decompose = decompose;
  return def;
}

const OpDef kSoftmax = softmax(OpKind::Softmax, "Softmax", decompose_softmax, gradient_of_softmax);
const OpDef kLogSoftmax = softmax(OpKind::LogSoftmax, "LogSoftmax", decompose_log_softmax, gradient_of_log_softmax);
const OpDef kHardmax = softmax(OpKind::Hardmax, "Hardmax", decompose_hardmax, no_gradient);

}  // namespace weftc

// Quantized forms of other ops, by the op itself on real numbers:
//
//   QLinearAdd(a, sa, za, b, sb, zb, sy, zy)  ->  Saturate(Round(((a - za) * sa + (b - zb) * sb) / sy) + zy)
//
// and DynamicQuantizeLinear (ONNX 11), which finds scale and zero point by the range of its operand.
#include "ir/ops/quantization.h"
#include "ir/ops/window.h"

namespace weftc {

namespace {

constexpr QuantizedOperand kFirst{0, 1, 2}, kSecond{3, 4, 5};

/// Ops with one operand have scale and zero point of the result at 3 and 4, ops with two at 6 and 7.
bool infer_quantized_unary(const OpView& op, std::vector<TensorType>& results) {
  if (!is_byte_operand(op, 0) || !has_byte_zero(op, 4) || !hold_one_number(op, {1, 2, 3, 4})) return false;
  results = {{quantized_dtype(op, 4, op.type(0).dtype), op.type(0).shape, {}}};
  return true;
}

bool infer_quantized_binary(const OpView& op, std::vector<TensorType>& results) {
  if (!is_byte_operand(op, 0) || !is_byte_operand(op, 3) || !has_byte_zero(op, 7) ||
      !hold_one_number(op, {1, 2, 4, 5, 6, 7}))
    return false;
  const std::optional<Shape> shape = broadcast({op.type(0).shape, op.type(3).shape});
  if (!shape)
    return op.fail("broadcast-dims", "shapes {} and {} cannot be broadcast together", dims_text(op.dims(0)),
                   dims_text(op.dims(3)));
  results = {{quantized_dtype(op, 7, op.type(0).dtype), *shape, {}}};
  return true;
}

template <OpKind kKind>
std::vector<ValueId> decompose_quantized_binary(Builder& build, const OpView& op) {
  const Term real = dequantized(build, op, kFirst).apply(kKind, dequantized(build, op, kSecond));
  return {quantized(build, op, real, 6, 7, op.result_type(0).dtype).value()};
}

bool has_channels_last(const OpView& op) { return op.op().integer_or("channels_last", 0) != 0; }

/// `kKind` on the real numbers, with the attributes that `attrs` returns.
template <OpKind kKind, Attrs (*attrs)(const OpView&)>
std::vector<ValueId> decompose_quantized_unary(Builder& build, const OpView& op) {
  const std::vector<int64_t> dims = range_of(0, op.type(0).ndim());
  Term x = dequantized(build, op, kFirst);
  if (has_channels_last(op)) x = x.transpose(with_channels_first(dims));
  Term y(build, build.op(kKind, {x.value()}, attrs(op)));
  if (has_channels_last(op)) y = y.transpose(with_channels_last(dims));
  return {quantized(build, op, y, 3, 4, op.result_type(0).dtype).value()};
}

Attrs no_attrs(const OpView&) { return {}; }
Attrs leaky_attrs(const OpView& op) { return {{"alpha", real_of(op.op(), "alpha")}}; }
/// Before opset 13 a softmax works on rows that span all dimensions from its axis on.
Attrs softmax_attrs(const OpView& op) {
  return {{"axis", int_of(op.op(), "axis")}, {"flatten", int64_t{int_of(op.op(), "opset") < 13}}};
}
Attrs pool_attrs(const OpView& op) {
  Attrs attrs = op.op().attrs;
  std::erase_if(attrs, [](const Attr& attr) { return attr.name == "channels_last"; });
  return attrs;
}

bool infer_quantized_softmax(const OpView& op, std::vector<TensorType>& results) {
  return op.axis("axis", op.type(0).ndim()) && infer_quantized_unary(op, results);
}

/// The shape of the first operand with its channels after the batch.
Shape image_shape(const OpView& op) {
  return has_channels_last(op) ? with_channels_first(op.type(0).shape) : op.type(0).shape;
}

void set_image(TensorType& type, const OpView& op, const Shape& shape) {
  type.shape = has_channels_last(op) ? with_channels_last(shape) : shape;
}

bool infer_quantized_pool(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 3) || !infer_quantized_unary(op, results)) return false;
  if (!op.op().has("kernel_shape")) return op.fail("pool-kernel", "'kernel_shape' is missing");
  const Shape image = image_shape(op);
  if (!is_fixed_dim(op, 0, has_channels_last(op) ? op.type(0).ndim() - 1 : 1)) return false;
  const std::optional<Window> window = window_of(op, {});
  const std::optional<Shape> y = window ? windows_shape(op, *window, image[1], image) : std::nullopt;
  if (y) set_image(results[0], op, *y);
  return y.has_value();
}

bool infer_quantized_global_pool(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 2) || !infer_quantized_unary(op, results)) return false;
  Shape image = image_shape(op);
  for (size_t d = 2; d < image.size(); ++d) image[d] = {1, {}};
  set_image(results[0], op, image);
  return true;
}

/// Scale and zero point of the result, then three operands for each joined tensor.
bool infer_quantized_concat(const OpView& op, std::vector<TensorType>& results) {
  if (op.inputs() < 5 || op.inputs() % 3 != 2)
    return op.fail("quantized-concat", "{} operands are no scale, zero point and three for each tensor", op.inputs());
  const std::optional<int64_t> axis = op.axis("axis", op.type(2).ndim());
  if (!axis || !hold_one_number(op, {0, 1})) return false;
  Shape shape = op.type(2).shape;
  for (int i = 5; i < op.inputs(); i += 3) {
    const Shape& other = op.type(i).shape;
    bool fits = other.size() == shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d)
      fits = static_cast<int64_t>(d) == *axis || other[d].bound == shape[d].bound;
    if (!fits)
      return op.fail("concat-dims", "shapes {} and {} cannot be joined along axis {}", dims_text(op.dims(2)),
                     dims_text(op.dims(i)), *axis);
    if (!is_fixed(op, i)) return false;
    shape[*axis].bound += other[*axis].bound;
  }
  for (int i = 2; i < op.inputs(); i += 3)
    if (!is_byte_operand(op, i) || !hold_one_number(op, {i + 1, i + 2}) || !is_fixed(op, i)) return false;
  results = {{op.type(1).dtype, shape, {}}};
  return true;
}

/// Each tensor is converted to the result's scale before the tensors are joined; one with that scale is unchanged.
std::vector<ValueId> decompose_quantized_concat(Builder& build, const OpView& op) {
  const std::vector<ValueId>& in = op.op().inputs;
  std::vector<ValueId> parts;
  for (int i = 2; i < op.inputs(); i += 3) {
    const bool is_same = in[i + 1] == in[0] && in[i + 2] == in[1];
    parts.push_back(
        is_same
            ? in[i]
            : quantized(build, op, dequantized(build, op, {i, i + 1, i + 2}), 0, 1, op.result_type(0).dtype).value());
  }
  return {build.op(OpKind::Concat, std::move(parts), {{"axis", int_of(op.op(), "axis")}})};
}

bool infer_dynamic(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, 0)) return false;
  results = {{DType::U8, op.type(0).shape, {}}, {DType::F32, {}, {}}, {DType::U8, {}, {}}};
  return true;
}

/// The formula in ONNX's text: the range includes 0, and has 255 steps.
std::vector<ValueId> decompose_dynamic(Builder& build, const OpView& op) {
  const Term x = Term(build, op.op().inputs[0]).cast(DType::F32);
  const std::vector<int64_t> axes = range_of(0, op.type(0).ndim());
  const Term low = x.reduce(OpKind::ReduceMin, axes, false).apply(OpKind::Min, 0);
  const Term high = x.reduce(OpKind::ReduceMax, axes, false).apply(OpKind::Max, 0);
  const Term scale = (high - low) / 255;
  const Term zero = (0 - low / scale).clamp(0, 255).apply(OpKind::Round).saturate(DType::U8);
  const Term y = saturated(x / scale, zero.cast(DType::F32), DType::U8);
  return {y.value(), scale.value(), zero.value()};
}

OpDef quantized_op(OpKind kind, const char* name, Arity inputs, InferFn infer, DecomposeFn decompose) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name, 1, "com.microsoft"};
  def.inputs = inputs;
  def.infer = infer;
  def.decompose = decompose;
  return def;
}

OpDef with_attrs(OpDef def, std::vector<AttrSpec> attrs) {
  def.attrs = std::move(attrs);
  return def;
}

std::vector<AttrSpec> pool_attr_specs() {
  std::vector<AttrSpec> attrs = window_attrs();
  for (const char* name : {"ceil_mode", "channels_last", "count_include_pad"}) attrs.push_back(flag(name, 0));
  return attrs;
}

OpDef dynamic_quantize() {
  OpDef def =
      quantized_op(OpKind::DynamicQuantizeLinear, "DynamicQuantizeLinear", {1, 1}, infer_dynamic, decompose_dynamic);
  def.onnx = {"DynamicQuantizeLinear", 11};
  def.outputs = {1, 3};
  return def;
}

}  // namespace

const OpDef kQLinearAdd = quantized_op(OpKind::QLinearAdd, "QLinearAdd", {7, 8, {2, 5}}, infer_quantized_binary,
                                       decompose_quantized_binary<OpKind::Add>);
const OpDef kQLinearMul = quantized_op(OpKind::QLinearMul, "QLinearMul", {7, 8, {2, 5}}, infer_quantized_binary,
                                       decompose_quantized_binary<OpKind::Mul>);
const OpDef kQLinearSigmoid = quantized_op(OpKind::QLinearSigmoid, "QLinearSigmoid", {4, 5, {2}}, infer_quantized_unary,
                                           decompose_quantized_unary<OpKind::Sigmoid, no_attrs>);
const OpDef kQLinearLeakyRelu =
    with_attrs(quantized_op(OpKind::QLinearLeakyRelu, "QLinearLeakyRelu", {4, 5, {2}}, infer_quantized_unary,
                            decompose_quantized_unary<OpKind::LeakyRelu, leaky_attrs>),
               {{"alpha", AttrType::Real, 0.01}});
const OpDef kQLinearSoftmax =
    with_attrs(quantized_op(OpKind::QLinearSoftmax, "QLinearSoftmax", {5, 5, {2}}, infer_quantized_softmax,
                            decompose_quantized_unary<OpKind::Softmax, softmax_attrs>),
               {{"axis", AttrType::Int, -1}, {"opset", AttrType::Int, {}, true}});
const OpDef kQLinearAveragePool =
    with_attrs(quantized_op(OpKind::QLinearAveragePool, "QLinearAveragePool", {4, 5, {2}}, infer_quantized_pool,
                            decompose_quantized_unary<OpKind::AveragePool, pool_attrs>),
               pool_attr_specs());
const OpDef kQLinearGlobalAveragePool = with_attrs(
    quantized_op(OpKind::QLinearGlobalAveragePool, "QLinearGlobalAveragePool", {5, 5}, infer_quantized_global_pool,
                 decompose_quantized_unary<OpKind::GlobalAveragePool, no_attrs>),
    {flag("channels_last", 0)});
const OpDef kQLinearConcat = with_attrs(
    quantized_op(OpKind::QLinearConcat, "QLinearConcat", {5, -1}, infer_quantized_concat, decompose_quantized_concat),
    {{"axis", AttrType::Int, {}, true}});
const OpDef kDynamicQuantizeLinear = dynamic_quantize();

}  // namespace weftc

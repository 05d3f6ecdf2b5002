// QuantizeLinear and DequantizeLinear (ONNX 10 to 21) with a scale for the tensor or for each index of an axis.
// Types of less than 8 bits and scales for blocks are refused. Both become pointwise ops, so that fusion
// computes them where their operand is read:
//
//   QuantizeLinear(x, s, z)    ->  Cast(clamp(Round(x / s) + z))
//   DequantizeLinear(x, s, z)  ->  Cast(x - z) * s
#include <cmath>

#include "ir/ops/composite.h"

namespace weftc {

namespace {

/// A scalar (or a vector of one), or a vector as long as the axis; else reports.
bool check_scale(const OpView& op) {
  if (int_of(op.op(), "block_size"))
    return op.fail("quantize-blocks-unsupported", "scales for blocks are not supported");
  const TensorType& scale = op.type(1);
  if (scale.count() == 1 && scale.ndim() < 2) return true;
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim());
  if (!axis) return false;
  if (scale.ndim() == 1 && scale.count() == op.type(0).shape[*axis].bound) return true;
  return op.fail("quantize-scale", "a scale of shape {} does not fit axis {} of shape {}", dims_text(scale.dims()),
                 *axis, dims_text(op.dims(0)));
}

/// A scale or zero point shaped to broadcast along the axis, as f32.
ValueId along_axis(Builder& build, const OpView& op, ValueId x) {
  const int64_t ndim = op.type(0).ndim(), count = build.type(x).count();
  x = build.cast(x, DType::F32);
  if (count == 1) return build.reshape(x, {});
  Dims dims(ndim - from_front(int_of(op.op(), "axis"), ndim), 1);
  dims[0] = count;
  return build.reshape(x, dims);
}

/// output_dtype 0 means "not given": it is the default that ONNX gives it.
bool import_quantize(Graph& graph, OpId id, int, const OpView& view) {
  if (view.op().integer_or("output_dtype", 0) == 0) {
    graph.edit(id).remove("output_dtype");
    return true;
  }
  return import_dtype(graph, id, "output_dtype", view);
}

/// The zero point's type, else output_dtype, else uint8.
bool infer_quantize(const OpView& op, std::vector<TensorType>& results) {
  if (!check_scale(op)) return false;
  DType dtype = DType::U8;
  if (op.op().has("output_dtype")) dtype = dtype_of_attr(op.op().integer("output_dtype"));
  if (op.has(2)) dtype = op.type(2).dtype;
  if (is_float(dtype) || dtype_bytes(dtype) > 2)
    return op.fail("quantize-dtype-unsupported", "quantizing to {} is not supported", dtype_name(dtype));
  results = {{dtype, op.type(0).shape, {}}};
  return true;
}

/// Rounds half to even, adds the zero point, saturates.
std::vector<ValueId> decompose_quantize(Builder& build, const OpView& op) {
  const std::vector<ValueId> in = op.op().inputs;
  const DType dtype = op.result_type(0).dtype;
  const bool has_zero = op.has(2);
  ValueId x = build.op(OpKind::Round, {divide(build, build.cast(in[0], DType::F32), along_axis(build, op, in[1]))});
  if (has_zero) x = add(build, x, along_axis(build, op, in[2]));
  const int bits = static_cast<int>(dtype_bytes(dtype)) * 8;
  const double low = is_signed_int(dtype) ? -std::ldexp(1, bits - 1) : 0;
  const double high = std::ldexp(1, is_signed_int(dtype) ? bits - 1 : bits) - 1;
  x = with_scalar(build, OpKind::Min, with_scalar(build, OpKind::Max, x, low), high);
  return {build.cast(x, dtype)};
}

/// output_dtype, else the scale's type.
bool infer_dequantize(const OpView& op, std::vector<TensorType>& results) {
  if (!check_scale(op)) return false;
  DType dtype = op.type(1).dtype;
  if (op.op().has("output_dtype")) dtype = dtype_of_attr(op.op().integer("output_dtype"));
  results = {{dtype, op.type(0).shape, {}}};
  return true;
}

/// The zero point is subtracted as an integer: a 32-bit operand does not fit a float.
std::vector<ValueId> decompose_dequantize(Builder& build, const OpView& op) {
  const std::vector<ValueId> in = op.op().inputs;
  const DType dtype = op.result_type(0).dtype;
  const bool has_zero = op.has(2);
  // 32-bit integers do not fit a float: their difference is taken first.
  ValueId x = in[0];
  if (has_zero) {
    const ValueId zero = build.cast(in[2], DType::I32);
    const int64_t ndim = op.type(0).ndim(), count = build.type(zero).count();
    Dims dims(count == 1 ? 0 : ndim - from_front(int_of(op.op(), "axis"), ndim), 1);
    if (!dims.empty()) dims[0] = count;
    x = subtract(build, build.cast(x, DType::I32), build.reshape(zero, dims));
  }
  return {build.cast(multiply(build, build.cast(x, DType::F32), along_axis(build, op, in[1])), dtype)};
}

OpDef quantization(OpKind kind, const char* name, InferFn infer, DecomposeFn decompose) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name, 10};
  def.aliases = {{name, 1, "com.microsoft"}};
  def.attrs = {{"axis", AttrType::Int, 1},
               {"block_size", AttrType::Int, 0},
               {"output_dtype", AttrType::Int},
               {"precision", AttrType::Int},
               {"saturate", AttrType::Int, 1}};
  def.inputs = {2, 3};
  def.import = import_quantize;
  def.infer = infer;
  def.decompose = decompose;
  return def;
}

}  // namespace

const OpDef kQuantizeLinear =
    quantization(OpKind::QuantizeLinear, "QuantizeLinear", infer_quantize, decompose_quantize);
const OpDef kDequantizeLinear =
    quantization(OpKind::DequantizeLinear, "DequantizeLinear", infer_dequantize, decompose_dequantize);

}  // namespace weftc

// QuantizeLinear and DequantizeLinear (ONNX 10 to 28, com.microsoft), with a scale for the tensor, for each index of an
// axis, or for blocks along an axis. Both become pointwise ops, so that fusion computes them where their operand is
// read:
//
//   QuantizeLinear(x, s, z)    ->  Saturate(Round(x / s) + z)        to small floats: Cast(x / s + z)
//   DequantizeLinear(x, s, z)  ->  Cast(x - z) * s
#include "ir/ops/quantization.h"

namespace weftc {

namespace {

bool is_blocked(const OpView& op) { return int_of(op.op(), "block_size") > 0; }

/// A scale for each block: the operand's shape, except for one dimension.
bool check_blocks(const OpView& op) {
  const Dims x = op.dims(0), scale = op.dims(1);
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim());
  if (!axis || !is_fixed(op, 0)) return false;
  Dims wanted = x;
  const int64_t block = int_of(op.op(), "block_size");
  wanted[*axis] = x[*axis] == 0 ? 0 : (x[*axis] - 1) / block + 1;
  if (scale == wanted) return true;
  return op.fail("quantize-scale", "a scale of shape {} does not fit blocks of {} along axis {} of shape {}",
                 dims_text(scale), block, *axis, dims_text(x));
}

/// A scalar (or a vector of one element), a vector as long as the axis, or blocks; the zero point has the same shape.
bool check_scale(const OpView& op) {
  if (!is_fixed(op, 1) || (op.has(2) && !is_fixed(op, 2))) return false;
  const TensorType& scale = op.type(1);
  if (op.has(2) && op.type(2).count() != scale.count())
    return op.fail("quantize-zero-point", "a zero point of shape {} does not fit a scale of shape {}",
                   dims_text(op.dims(2)), dims_text(scale.dims()));
  if (int_of(op.op(), "block_size") < 0) return op.fail("quantize-block-size", "'block_size' must not be negative");
  if (is_blocked(op)) return check_blocks(op);
  if (scale.count() == 1 && scale.ndim() < 2) return true;
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim());
  if (!axis) return false;
  if (!is_static({op.type(0).shape[*axis]}))
    return op.fail("quantize-run-time-axis-unsupported",
                   "axis {} has a scale for each index, and a length that is known at run time only", *axis);
  if (scale.ndim() == 1 && scale.count() == op.type(0).shape[*axis].bound) return true;
  return op.fail("quantize-scale", "a scale of shape {} does not fit axis {} of shape {}", dims_text(scale.dims()),
                 *axis, dims_text(op.dims(0)));
}

/// Repeats each element of a tensor of blocks for all elements of its block.
Term spread(const OpView& op, Term blocks) {
  const Dims x = op.dims(0);
  const int64_t axis = from_front(int_of(op.op(), "axis"), op.type(0).ndim()), size = int_of(op.op(), "block_size");
  Dims apart = blocks.dims(), repeated, joined = apart;
  apart.insert(apart.begin() + axis + 1, 1);
  repeated = apart;
  repeated[static_cast<size_t>(axis) + 1] = size;
  joined[static_cast<size_t>(axis)] *= size;
  return blocks.reshape(apart).expand(repeated).reshape(joined).slice(axis, 0, x[static_cast<size_t>(axis)]);
}

/// A scale or zero point shaped to broadcast against the operand.
Term along_axis(const OpView& op, Term x) {
  if (is_blocked(op)) return spread(op, x);
  const int64_t ndim = op.type(0).ndim(), count = element_count(x.dims());
  if (count == 1) return x.reshape({});
  Dims dims(static_cast<size_t>(ndim - from_front(int_of(op.op(), "axis"), ndim)), 1);
  dims[0] = count;
  return x.reshape(dims);
}

/// An attribute of 0 means "not given".
bool import_given_dtype(Graph& graph, OpId id, const char* attr, const OpView& view) {
  if (view.op().integer_or(attr, 0) != 0) return import_dtype(graph, id, attr, view);
  graph.edit(id).remove(attr);
  return true;
}

bool import_quantize(Graph& graph, OpId id, int, const OpView& view) {
  return import_given_dtype(graph, id, "output_dtype", view) && import_given_dtype(graph, id, "precision", view);
}

std::optional<DType> dtype_given(const OpView& op, const char* attr) {
  return op.op().has(attr) ? std::optional(dtype_of_attr(op.op().integer(attr))) : std::nullopt;
}

/// The zero point's type, else output_dtype, else uint8.
bool infer_quantize(const OpView& op, std::vector<TensorType>& results) {
  if (!check_scale(op)) return false;
  const std::optional<DType> given = dtype_given(op, "output_dtype");
  const DType dtype = op.has(2) ? op.type(2).dtype : given.value_or(DType::U8);
  if (given && *given != dtype)
    return op.fail("quantize-dtype", "'output_dtype' is {}, but the zero point is {}", dtype_name(*given),
                   dtype_name(dtype));
  if (!is_small_float(dtype) && (is_float(dtype) || dtype == DType::Bool || dtype_bytes(dtype) > 2))
    return op.fail("quantize-dtype-unsupported", "quantizing to {} is not supported", dtype_name(dtype));
  results = {{dtype, op.type(0).shape, {}}};
  return true;
}

/// x / scale in the requested precision, which is the scale's by default. Division in f32 followed by rounding equals
/// division of 16-bit floats.
Term quotient(Builder& build, const OpView& op) {
  const std::vector<ValueId>& in = op.op().inputs;
  const DType scale = op.type(1).dtype, precision = dtype_given(op, "precision").value_or(scale);
  const DType computed = wide(precision);
  // Operands that are wider than the precision are rounded to it first.
  const auto operand = [&](ValueId value) { return Term(build, value).cast(precision).cast(computed); };
  return (operand(in[0]) / along_axis(op, operand(in[1]))).cast(precision).cast(DType::F32);
}

/// Rounds half to even, adds the zero point, saturates. For small floats, the quotient is converted.
std::vector<ValueId> decompose_quantize(Builder& build, const OpView& op) {
  const DType dtype = op.result_type(0).dtype;
  const Term x = quotient(build, op);
  std::optional<Term> zero;
  if (op.has(2)) zero = along_axis(op, Term(build, op.op().inputs[2]).cast(DType::F32));
  if (!is_small_float(dtype)) return {saturated(x, zero, dtype).value()};
  return {build.op(OpKind::Cast, {(zero ? x + *zero : x).value()},
                   {{"saturate", int_of(op.op(), "saturate")}, {"to", dtype_attr(dtype)}})};
}

/// output_dtype, else the scale's type.
bool infer_dequantize(const OpView& op, std::vector<TensorType>& results) {
  if (!check_scale(op)) return false;
  const DType dtype = dtype_given(op, "output_dtype").value_or(op.type(1).dtype);
  if (!is_float(dtype))
    return op.fail("dequantize-dtype", "'output_dtype' is {}, where a floating type is needed", dtype_name(dtype));
  if (op.has(2) && op.type(2).dtype != op.type(0).dtype)
    return op.fail("dequantize-zero-point", "the zero point is {}, but the operand {}", dtype_name(op.type(2).dtype),
                   dtype_name(op.type(0).dtype));
  results = {{dtype, op.type(0).shape, {}}};
  return true;
}

/// The zero point is subtracted as an integer: 32-bit operands do not fit into a float.
std::vector<ValueId> decompose_dequantize(Builder& build, const OpView& op) {
  const std::vector<ValueId>& in = op.op().inputs;
  Term x(build, in[0]);
  if (op.has(2)) {
    const DType whole = is_float(op.type(0).dtype) ? DType::F32 : DType::I32;
    x = x.cast(whole) - along_axis(op, Term(build, in[2]).cast(whole));
  }
  const Term scale = along_axis(op, Term(build, in[1]).cast(DType::F32));
  return {(x.cast(DType::F32) * scale).cast(op.result_type(0).dtype).value()};
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
               flag("saturate", 1)};
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

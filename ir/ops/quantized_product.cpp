// Products and convolutions of quantized numbers. MatMulInteger and ConvInteger with signed weights without a zero
// point stay: they sum products of 8-bit integers, and attribute `zero` is the known zero point of their first operand.
// All others become products and convolutions of 32-bit integers, and ops that convert the sums to another scale:
//
//   MatMulInteger(a, b, za, zb)     ->  MatMul(Cast<i32>(a) - za, Cast<i32>(b) - zb)
//   QLinearMatMul(a, sa, za, ...)   ->  Saturate(Round(Cast<f32>(sums) * (sa * sb / sy)) + zy)
//   MatMulIntegerToFloat(a, b, ..)  ->  Cast<f32>(sums) * (sa * sb) + bias
#include <algorithm>

#include "ir/ops/matmul.h"
#include "ir/ops/quantization.h"
#include "ir/ops/window.h"

namespace weftc {

namespace {

constexpr int kNone = 64;  // an absent operand

/// Operand numbers of an op's first and second operand, each with scale and zero point.
struct Factors {
  QuantizedOperand a, b;
};
constexpr Factors kIntegers{{0, kNone, 2}, {1, kNone, 3}};
constexpr Factors kBothScaled{{0, 1, 2}, {3, 4, 5}};
constexpr Factors kToFloat{{0, 2, 4}, {1, 3, 5}};
constexpr Factors kDynamic{{0, kNone, kNone}, {1, 2, 3}};

ValueId operand_or_none(const OpView& op, int i) { return op.has(i) ? op.op().inputs[i] : ValueId{}; }

/// Checks for one number, or one for each row of the first operand ([m] or [.., m, 1]) or each column of the second
/// one.
bool fits_rows(const OpView& op, int part, int of, bool is_row) {
  if (!op.has(part)) return true;
  if (op.type(part).count() == 1) return is_fixed(op, part);
  const Dims given = op.dims(part), dims = op.dims(of);
  const size_t back = is_row ? 2 : 1;
  const int64_t extent = dims.size() < back ? 1 : dims[dims.size() - back];
  Dims whole(dims);
  if (!whole.empty()) whole[whole.size() - (is_row || dims.size() < 2 ? 1 : 2)] = 1;
  if (given.size() == 1 ? given[0] == extent : given == whole) return true;
  return op.fail("quantized-scale", "a scale or zero point of shape {} does not fit the {} of an operand of shape {}",
                 dims_text(given), is_row ? "rows" : "columns", dims_text(dims));
}

bool check_factors(const OpView& op, const Factors& of) {
  return is_byte_operand(op, of.b.integers) && fits_rows(op, of.a.scale, of.a.integers, true) &&
         fits_rows(op, of.a.zero, of.a.integers, true) && fits_rows(op, of.b.scale, of.b.integers, false) &&
         fits_rows(op, of.b.zero, of.b.integers, false);
}

bool infer_product(const OpView& op, const Factors& of, DType dtype, std::vector<TensorType>& results) {
  if (!check_factors(op, of)) return false;
  const std::optional<Shape> shape = product_shape(op, of.a.integers, of.b.integers);
  if (!shape) return false;
  results = {{dtype, *shape, {}}};
  return true;
}

/// A scale or zero point, shaped to broadcast against the operand, or the result, whose rows or columns it is for.
ValueId along(Builder& build, const OpView& op, int part, bool is_row) {
  const ValueId value = operand_or_none(op, part);
  if (!value) return {};
  const Dims dims = build.dims(value);
  if (element_count(dims) == 1) return build.reshape(value, {});
  return is_row && dims.size() == 1 ? build.reshape(value, {dims[0], 1}) : value;
}

bool sums_bytes(const OpView& op, QuantizedOperand a, QuantizedOperand b);
std::optional<int64_t> known_number(const OpView& op, int i);

/// [1, n] of a weight [k, n], i32: a constant if its elements are known.
Term column_sums(Builder& build, const OpView& op, int weight) {
  const ValueId value = op.op().inputs[static_cast<size_t>(weight)];
  const std::optional<Tensor> known = op.known(weight);
  if (!known) return Term(build, value).cast(DType::I32).reduce(OpKind::ReduceSum, {0}, true);
  Tensor sums(DType::I32, {1, known->dims[1]});
  for (Index at(known->dims); at.more(); at.next()) sums.integers[at[1]] += known->integers[at.linear()];
  return {build, build.constant(sums)};
}

/// The product of the integers minus their zero points, i32. If za is one number that only a run knows, it is
/// subtracted after the product: (a - za) b = a b - za * (sums of the columns of b).
Term sums_of(Builder& build, const OpView& op, const Factors& of) {
  const std::vector<ValueId>& in = op.op().inputs;
  const bool are_matrices = op.type(of.a.integers).ndim() > 1 && op.type(of.b.integers).ndim() == 2;
  const bool has_one_zero = !op.has(of.a.zero) || op.type(of.a.zero).count() == 1;
  if (are_matrices && has_one_zero && sums_bytes(op, of.a, of.b)) {
    const ValueId a = in[of.a.integers], b = in[of.b.integers];
    const std::optional<int64_t> zero = known_number(op, of.a.zero);
    const Term sums(build, build.op(OpKind::MatMulInteger, {a, b}, {{"zero", zero.value_or(0)}}));
    if (zero) return sums;
    const Term columns = column_sums(build, op, of.b.integers);
    return sums - columns * Term(build, in[of.a.zero]).reshape({}).cast(DType::I32);
  }
  return product(centred(build, in[of.a.integers], along(build, op, of.a.zero, true)),
                 centred(build, in[of.b.integers], along(build, op, of.b.zero, false)));
}

/// The product of both scales, f32.
Term scale_of(Builder& build, const OpView& op, const Factors& of) {
  return Term(build, along(build, op, of.a.scale, true)).cast(DType::F32) *
         Term(build, along(build, op, of.b.scale, false)).cast(DType::F32);
}

/// True if the operand is absent or constant zeros.
bool is_known_zero(const OpView& op, int i) {
  if (!op.has(i)) return true;
  const std::optional<Tensor> known = op.known(i);
  return known && std::all_of(known->integers.begin(), known->integers.end(), [](int64_t x) { return x == 0; });
}

/// The number in a constant operand; absent: 0.
std::optional<int64_t> known_number(const OpView& op, int i) {
  if (!op.has(i)) return 0;
  const std::optional<Tensor> known = op.known(i);
  return known && known->size() == 1 ? std::optional(known->integers[0]) : std::nullopt;
}

bool is_weight(const OpView& op, int i) {
  const Op* made = &op.graph().producer_op(op.op().inputs[static_cast<size_t>(i)]);
  if (made->kind == OpKind::Transpose) made = &op.graph().producer_op(made->inputs[0]);
  return made->kind == OpKind::Constant;
}

/// True for 8-bit operands, the second of which is a signed weight without a zero point.
bool sums_bytes(const OpView& op, QuantizedOperand a, QuantizedOperand b) {
  const DType left = op.type(a.integers).dtype;
  return is_weight(op, b.integers) && (left == DType::U8 || left == DType::I8) &&
         op.type(b.integers).dtype == DType::I8 && is_known_zero(op, b.zero);
}

/// Integers minus a zero point, which is an operand or the attribute `zero`, for the reference.
Tensor without_zero(const EvalContext& context, int integers, int zero, const Dims& shape_of_zero) {
  Tensor x = context.in(integers);
  x.dtype = DType::I32;
  const int64_t number = integers == 0 ? context.op.integer_or("zero", 0) : 0;
  const Tensor* zeros = context.has(zero) ? context.inputs[static_cast<size_t>(zero)] : nullptr;
  const Dims dims = zeros && zeros->size() > 1 ? shape_of_zero : Dims{};
  const Dims strides = broadcast_strides(dims, static_cast<int>(x.dims.size()));
  for (Index at(x.dims); at.more(); at.next())
    x.integers[at.linear()] -= zeros ? zeros->integers[at.dot(strides)] : number;
  return x;
}

void eval_matmul_integer(EvalContext& context) {
  const auto zero_dims = [&](int zero, bool is_row) -> Dims {
    if (!context.has(zero)) return {};
    const Dims dims = context.in(zero).dims;
    return is_row && dims.size() == 1 ? Dims{dims[0], 1} : dims;
  };
  multiply_matrices(context, without_zero(context, 0, 2, zero_dims(2, true)),
                    without_zero(context, 1, 3, zero_dims(3, false)));
}

bool infer_matmul_integer(const OpView& op, std::vector<TensorType>& results) {
  return is_byte_operand(op, 0) && infer_product(op, kIntegers, DType::I32, results);
}

/// True if decompositions and rules have set `zero`: the conditions of sums_bytes hold.
bool has_zero(const OpView& op) { return op.op().has("zero"); }

bool import_integers(Graph&, OpId, int, const OpView& view) {
  return !has_zero(view) || view.fail("unknown-attribute", "{} has no attribute 'zero'", op_def(view.op()).name);
}

std::vector<ValueId> decompose_matmul_integer(Builder& build, const OpView& op) {
  return {sums_of(build, op, kIntegers).value()};
}

bool infer_qlinear_matmul(const OpView& op, std::vector<TensorType>& results) {
  return is_byte_operand(op, 0) && has_byte_zero(op, 7) && hold_one_number(op, {6, 7}) &&
         infer_product(op, kBothScaled, quantized_dtype(op, 7, op.type(0).dtype), results);
}

/// Sums by a factor, rounded, as integers of the type and zero point of operand `zero`.
Term requantized(Builder& build, const OpView& op, Term sums, Term factor, int zero, DType to) {
  std::optional<Term> shift;
  if (op.has(zero)) shift = scalar_operand(build, op, zero);
  return saturated(sums.cast(DType::F32) * factor, shift, to);
}

std::vector<ValueId> decompose_qlinear_matmul(Builder& build, const OpView& op) {
  const Term factor = scale_of(build, op, kBothScaled) / scalar_operand(build, op, 6);
  return {requantized(build, op, sums_of(build, op, kBothScaled), factor, 7, op.result_type(0).dtype).value()};
}

bool infer_to_float(const OpView& op, std::vector<TensorType>& results) {
  return is_byte_operand(op, 0) && infer_product(op, kToFloat, op.type(2).dtype, results);
}

Term with_bias(Builder& build, const OpView& op, Term product, int bias) {
  return op.has(bias) ? product + Term(build, op.op().inputs[bias]).cast(product.dtype()) : product;
}

std::vector<ValueId> decompose_to_float(Builder& build, const OpView& op) {
  const Term y = sums_of(build, op, kToFloat).cast(DType::F32) * scale_of(build, op, kToFloat);
  return {with_bias(build, op, y, 6).cast(op.type(2).dtype).value()};
}

/// Operand 0 is real and is quantized by its own range.
bool infer_dynamic_matmul(const OpView& op, std::vector<TensorType>& results) {
  return is_real_operand(op, 0) && infer_product(op, kDynamic, DType::F32, results);
}

std::vector<ValueId> decompose_dynamic_matmul(Builder& build, const OpView& op) {
  const std::vector<ValueId>& in = op.op().inputs;
  const std::vector<ValueId> a = build.ops(OpKind::DynamicQuantizeLinear, {in[0]}, {}, 3);
  const std::vector<ValueId> zero = op.has(3) ? std::vector<ValueId>{in[3]} : std::vector<ValueId>{};
  std::vector<ValueId> operands{a[0], in[1], a[2]};
  operands.insert(operands.end(), zero.begin(), zero.end());
  const Term sums(build, build.op(OpKind::MatMulInteger, std::move(operands)));
  const Term scale = Term(build, a[1]) * Term(build, along(build, op, 2, false)).cast(DType::F32);
  return {with_bias(build, op, sums.cast(DType::F32) * scale, 4).value()};
}

/// QGemm: a, b with scales and zero points, an i32 bias of the scale alpha * sa * sb, and the result's scale and zero
/// point. Without these the result is real.
bool infer_qgemm(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 2, 2) || !has_ndim(op, 3, 2, 2) || !is_byte_operand(op, 0) || !is_byte_operand(op, 3))
    return false;
  if (!hold_one_number(op, {1, 2, 7, 8})) return false;
  const bool a_turned = int_of(op.op(), "transA") != 0, b_turned = int_of(op.op(), "transB") != 0;
  const Shape &a = op.type(0).shape, &b = op.type(3).shape;
  if (a[!a_turned].bound != b[b_turned].bound)
    return op.fail("gemm-inner-dim", "inner dimensions differ: {} and {}", a[!a_turned].bound, b[b_turned].bound);
  for (int part : {4, 5})
    if (op.type(part).count() != 1 && op.dims(part) != Dims{b[!b_turned].bound})
      return op.fail("quantized-scale", "a scale or zero point of shape {} does not fit {} columns",
                     dims_text(op.dims(part)), b[!b_turned].bound);
  if (!has_byte_zero(op, 8)) return false;
  const DType dtype = op.has(7) ? quantized_dtype(op, 8, op.type(0).dtype) : DType::F32;
  results = {{dtype, {a[a_turned], b[!b_turned]}, {}}};
  return true;
}

Term qgemm_sums(Builder& build, const OpView& op, ValueId b) {
  const Term a(build, op.op().inputs[0]);
  const Term rows = int_of(op.op(), "transA") ? a.transpose({1, 0}) : a;
  const std::optional<int64_t> zero = known_number(op, 2);
  if (zero && sums_bytes(op, kBothScaled.a, kBothScaled.b))
    return {build, build.op(OpKind::MatMulInteger, {rows.value(), b}, {{"zero", *zero}})};
  return product(centred(build, rows.value(), along(build, op, 2, false)),
                 centred(build, b, along(build, op, 5, false)));
}

std::vector<ValueId> decompose_qgemm(Builder& build, const OpView& op) {
  const Op& gemm = op.op();
  ValueId b_values = gemm.inputs[3];
  if (int_of(gemm, "transB")) b_values = build.transpose(b_values, {1, 0});
  Term sums = qgemm_sums(build, op, b_values);
  if (op.has(6)) sums = sums + Term(build, gemm.inputs[6]);
  const Term scale = scale_of(build, op, kBothScaled) * real_of(gemm, "alpha");
  if (!op.has(7)) return {(sums.cast(DType::F32) * scale).value()};
  return {requantized(build, op, sums, scale / scalar_operand(build, op, 7), 8, op.result_type(0).dtype).value()};
}

/// A number, or one for each filter, shaped to broadcast against `dims`, whose dimension `at` counts the filters.
ValueId along_filters(Builder& build, const OpView& op, int part, const Dims& dims, size_t at) {
  const ValueId value = operand_or_none(op, part);
  if (!value) return {};
  const int64_t count = build.type(value).count();
  if (count == 1) return build.reshape(value, {});
  Dims shape(dims.size() - at, 1);
  shape[0] = count;
  return build.reshape(value, shape);
}

/// The convolution of the integers minus their zero points, i32.
Term convolution_sums(Builder& build, const OpView& op, QuantizedOperand x, QuantizedOperand w) {
  const std::vector<ValueId>& in = op.op().inputs;
  const std::optional<int64_t> known = known_number(op, x.zero);
  if (known && fills_byte_kernels(op.dims(w.integers), int_of(op.op(), "group")) && sums_bytes(op, x, w)) {
    Attrs attrs = op.op().attrs;
    attrs.push_back({"zero", *known});
    return {build, build.op(OpKind::ConvInteger, {in[x.integers], in[w.integers]}, std::move(attrs))};
  }
  const ValueId zero = op.has(x.zero) ? build.reshape(in[x.zero], {}) : ValueId{};
  const Term image = centred(build, in[x.integers], zero);
  const Term filters = centred(build, in[w.integers], along_filters(build, op, w.zero, op.dims(w.integers), 0));
  return {build, build.op(OpKind::Conv, {image.value(), filters.value()}, op.op().attrs)};
}

/// Scales and zero points of the filters hold a number, or one for each filter.
bool infer_convolution(const OpView& op, QuantizedOperand x, QuantizedOperand w, DType dtype,
                       std::vector<TensorType>& results) {
  if (!is_byte_operand(op, x.integers) || !is_byte_operand(op, w.integers)) return false;
  const std::optional<Shape> y = convolution_shape(op, w.integers);
  if (!y || !hold_one_number(op, {x.scale, x.zero})) return false;
  for (int part : {w.scale, w.zero})
    if (op.has(part) && op.type(part).count() != 1 && op.type(part).count() != (*y)[1].bound)
      return op.fail("quantized-scale", "a scale or zero point of shape {} does not fit {} filters",
                     dims_text(op.dims(part)), (*y)[1].bound);
  results = {{dtype, *y, {}}};
  return true;
}

constexpr QuantizedOperand kIntegerImage{0, kNone, 2}, kIntegerFilters{1, kNone, 3};
constexpr QuantizedOperand kImage{0, 1, 2}, kFilters{3, 4, 5};

bool infer_conv_integer(const OpView& op, std::vector<TensorType>& results) {
  return infer_convolution(op, kIntegerImage, kIntegerFilters, DType::I32, results);
}

void eval_conv_integer(EvalContext& context) {
  const Tensor x = without_zero(context, 0, 2, {});
  const int64_t filters = context.has(3) ? context.in(3).size() : 1;
  Dims zeros(context.in(1).dims.size(), 1);
  zeros[0] = filters;
  convolve(context, x, without_zero(context, 1, 3, zeros), nullptr);
}

std::vector<ValueId> decompose_conv_integer(Builder& build, const OpView& op) {
  return {convolution_sums(build, op, kIntegerImage, kIntegerFilters).value()};
}

bool infer_qlinear_conv(const OpView& op, std::vector<TensorType>& results) {
  return has_byte_zero(op, 7) && hold_one_number(op, {6, 7}) &&
         infer_convolution(op, kImage, kFilters, quantized_dtype(op, 7, op.type(0).dtype), results);
}

/// The bias has the scale of the sums.
std::vector<ValueId> decompose_qlinear_conv(Builder& build, const OpView& op) {
  const Dims y = op.result_type(0).dims();
  Term sums = convolution_sums(build, op, kImage, kFilters);
  if (op.has(8)) sums = sums + Term(build, along_filters(build, op, 8, y, 1));
  // Computed before it is reshaped, so that a product of constants is folded.
  const Term filter_scale = Term(build, op.op().inputs[4]).cast(DType::F32);
  const Term scales = scalar_operand(build, op, 1) * filter_scale / scalar_operand(build, op, 6);
  Dims shape(y.size() - 1, 1);
  shape[0] = element_count(scales.dims());
  const Term factor = scales.reshape(shape);
  return {requantized(build, op, sums, factor, 7, op.result_type(0).dtype).value()};
}

std::vector<AttrSpec> convolution_attrs() {
  std::vector<AttrSpec> attrs = window_attrs();
  attrs.push_back({"group", AttrType::Int, 1});
  return attrs;
}

OpDef quantized(OpKind kind, OnnxName onnx, Arity inputs, InferFn infer, DecomposeFn decompose) {
  OpDef def;
  def.kind = kind;
  def.name = onnx.name;
  def.onnx = onnx;
  def.inputs = inputs;
  def.infer = infer;
  def.decompose = decompose;
  return def;
}

OpDef convolution(OpKind kind, const char* name, Arity inputs, InferFn infer, DecomposeFn decompose) {
  OpDef def = quantized(kind, {name, 10}, inputs, infer, decompose);
  def.attrs = convolution_attrs();
  return def;
}

/// Only decompositions set `zero`.
OpDef matmul_integer() {
  OpDef def =
      quantized(OpKind::MatMulInteger, {"MatMulInteger", 10}, {2, 4}, infer_matmul_integer, decompose_matmul_integer);
  def.attrs = {{"zero", AttrType::Int}};
  def.category = Category::Contraction;
  def.factors = factors_matmul;
  def.eval = eval_matmul_integer;
  def.import = import_integers;
  def.is_primitive = has_zero;
  return def;
}

OpDef conv_integer() {
  OpDef def = convolution(OpKind::ConvInteger, "ConvInteger", {2, 4}, infer_conv_integer, decompose_conv_integer);
  def.attrs.push_back({"zero", AttrType::Int});
  def.category = Category::Contraction;
  def.canonicalize = canonical_convolution;
  def.factors = factors_convolution;
  def.eval = eval_conv_integer;
  def.import = import_integers;
  def.is_primitive = has_zero;
  return def;
}

OpDef qgemm() {
  OpDef def = quantized(OpKind::QGemm, {"QGemm", 1, "com.microsoft"}, {6, 9}, infer_qgemm, decompose_qgemm);
  def.attrs = {{"alpha", AttrType::Real, 1.0}, flag("transA", 0), flag("transB", 0)};
  return def;
}

}  // namespace

const OpDef kMatMulInteger = matmul_integer();
const OpDef kQLinearMatMul =
    quantized(OpKind::QLinearMatMul, {"QLinearMatMul", 10}, {8, 8}, infer_qlinear_matmul, decompose_qlinear_matmul);
const OpDef kMatMulIntegerToFloat =
    quantized(OpKind::MatMulIntegerToFloat, {"MatMulIntegerToFloat", 1, "com.microsoft"}, {4, 7}, infer_to_float,
              decompose_to_float);
const OpDef kDynamicQuantizeMatMul =
    quantized(OpKind::DynamicQuantizeMatMul, {"DynamicQuantizeMatMul", 1, "com.microsoft"}, {3, 5},
              infer_dynamic_matmul, decompose_dynamic_matmul);
const OpDef kQGemm = qgemm();
const OpDef kConvInteger = conv_integer();
const OpDef kQLinearConv =
    convolution(OpKind::QLinearConv, "QLinearConv", {8, 9}, infer_qlinear_conv, decompose_qlinear_conv);

}  // namespace weftc

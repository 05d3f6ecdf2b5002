// Reductions composed of simpler ones: means, norms, logarithms of sums, and the variadic Sum and Mean.
//
//   ReduceMean(x)       ->  ReduceSum(x) * (1 / count)       a factor known now: partial sums stay legal (L6)
//   ReduceL2(x)         ->  Sqrt(ReduceSum(x * x))
//   ReduceLogSumExp(x)  ->  Log(ReduceSum(Exp(x - m))) + m   m = ReduceMax(x): no exponential overflows
//
// Logarithms and roots of integers are computed in f64 and saturate. Sums that are not results are f32 if operands have
// 16 bits. Ranks and constants would round them or overflow in 16 bits, while a kernel of one rank does not.
#include "ir/ops/composite.h"
#include "ir/ops/reduction.h"

namespace weftc {

ValueId mean(Builder& build, ValueId x, const std::vector<int64_t>& axes, bool keepdims) {
  const TensorType type = build.type(x);
  if (is_float(type.dtype) && type.dtype != wide(type.dtype))  // 16 bits hold neither the sum nor 1/count exactly
    return build.cast(mean(build, build.cast(x, wide(type.dtype)), axes, keepdims), type.dtype);
  const ValueId sum = build.reduce(OpKind::ReduceSum, x, axes, keepdims);
  Length elements = 1;
  for (int64_t axis : axes) elements = elements * length_of(type.shape[axis]);
  if (!elements.is_constant()) return build.op(OpKind::Div, {sum, build.cast(build.length(elements), type.dtype)});
  const int64_t count = elements.constant();
  if (count == 1) return sum;
  const ValueId number =
      build.scalar(x, is_float(type.dtype) ? 1.0 / static_cast<double>(count) : static_cast<double>(count));
  return build.op(is_float(type.dtype) ? OpKind::Mul : OpKind::Div, {sum, number});
}

ValueId log_sum_exp(Builder& build, ValueId x, const std::vector<int64_t>& axes) {
  const ValueId largest = build.reduce(OpKind::ReduceMax, x, axes, true);
  const ValueId powers = build.op(OpKind::Exp, {build.op(OpKind::Sub, {x, largest})});
  const ValueId sum = build.reduce(OpKind::ReduceSum, powers, axes, true);
  const ValueId result = build.op(OpKind::Add, {build.op(OpKind::Log, {sum}), largest});
  return build.op(OpKind::Where, {build.op(OpKind::IsInf, {largest}), largest, result});
}

namespace {

/// Common inputs of the decompositions: a reduction's operand and canonical attributes, and the dims of its result.
struct Reduction {
  explicit Reduction(const OpView& op)
      : x(op.op().inputs[0]),
        axes(op.op().ints("axes")),
        keepdims(op.op().integer("keepdims") != 0),
        result(op.result_type(0).dims()) {}
  ValueId x;
  std::vector<int64_t> axes;
  bool keepdims;
  Dims result;

  /// The sum of `of` over the op's own axes.
  ValueId sum(Builder& build, ValueId of) const { return build.reduce(OpKind::ReduceSum, of, axes, keepdims); }
};

/// The sum of 32-bit integers may need more bits than their mean.
std::vector<ValueId> decompose_mean(Builder& build, const OpView& op) {
  const Reduction r(op);
  const DType dtype = op.type(0).dtype;
  if (dtype != DType::I32 && dtype != DType::U32) return {mean(build, r.x, r.axes, r.keepdims)};
  return {build.cast(mean(build, build.cast(r.x, DType::I64), r.axes, r.keepdims), dtype)};
}

std::vector<ValueId> decompose_l1(Builder& build, const OpView& op) {
  const Reduction r(op);
  return {r.sum(build, build.op(OpKind::Abs, {r.x}))};
}

std::vector<ValueId> decompose_sum_square(Builder& build, const OpView& op) {
  const Reduction r(op);
  return {r.sum(build, build.op(OpKind::Mul, {r.x, r.x}))};
}

/// The operand as floats in which sums and squares neither wrap nor overflow: 16 bits as f32, integers as f64.
ValueId as_floats(Builder& build, ValueId x) {
  const DType dtype = build.type(x).dtype;
  return build.cast(x, is_float(dtype) ? wide(dtype) : DType::F64);
}

/// Converts floats to the operand's type.
ValueId as_operand(Builder& build, const OpView& op, ValueId x) {
  const DType dtype = op.type(0).dtype;
  return is_float(dtype) ? build.cast(x, dtype) : Term(build, x).saturate(dtype).value();
}

std::vector<ValueId> decompose_l2(Builder& build, const OpView& op) {
  const Reduction r(op);
  const ValueId x = as_floats(build, r.x);
  const ValueId sum = r.sum(build, build.op(OpKind::Mul, {x, x}));
  return {as_operand(build, op, build.op(OpKind::Sqrt, {sum}))};
}

/// x / y, and 0 if all of x is 0.
Derivatives gradient_of_l2(const BackwardStep& s) {
  const Term y = s.out();
  return {s.in(0) * with_reduced(s, (y == 0).choose(s.zero(), s.g / y))};
}

std::vector<ValueId> decompose_log_sum(Builder& build, const OpView& op) {
  const Reduction r(op);
  return {as_operand(build, op, build.op(OpKind::Log, {r.sum(build, as_floats(build, r.x))}))};
}

/// The helper keeps the reduced dims to broadcast the maximum; they are dropped here if the op drops them.
std::vector<ValueId> decompose_log_sum_exp(Builder& build, const OpView& op) {
  const Reduction r(op);
  const ValueId result = log_sum_exp(build, as_floats(build, r.x), r.axes);
  return {as_operand(build, op, r.keepdims ? result : build.reshape(result, r.result))};
}

/// The shares of a Softmax. They are NaN if the result is infinite, as in PyTorch.
Derivatives gradient_of_log_sum_exp(const BackwardStep& s) {
  return {(s.in(0) - with_reduced(s, s.out())).apply(OpKind::Exp) * with_reduced(s, s.g)};
}

/// ReduceX-18: the axes are an optional operand, which must be constant; before 18 they are an attribute.
OpDef reduction(OpKind kind, const char* name, DecomposeFn decompose, GradientFn gradient = nullptr) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name};
  def.attrs = reduction_attrs();
  def.inputs = {1, 2};
  def.constant_operands = {{1, "axes", AttrType::Ints}};
  def.infer = infer_reduction;
  def.canonicalize = canonical_reduction;
  def.gradient = gradient;
  def.decompose = decompose;
  return def;
}

std::vector<ValueId> decompose_variadic_sum(Builder& build, const OpView& op) {
  ValueId sum = op.op().inputs[0];
  for (int i = 1; i < op.inputs(); ++i) sum = build.op(OpKind::Add, {sum, op.op().inputs[i]});
  return {sum};
}

std::vector<ValueId> decompose_variadic_mean(Builder& build, const OpView& op) {
  const int count = op.inputs();
  const std::vector<ValueId>& in = op.op().inputs;
  const DType dtype = op.type(0).dtype;
  if (count == 1) return {in[0]};
  if (!is_float(dtype)) return {with_scalar(build, OpKind::Div, decompose_variadic_sum(build, op)[0], count)};
  ValueId sum = build.cast(in[0], wide(dtype));
  for (int i = 1; i < count; ++i) sum = add(build, sum, build.cast(in[i], wide(dtype)));
  return {build.cast(with_scalar(build, OpKind::Mul, sum, 1.0 / count), dtype)};
}

}  // namespace

const OpDef kReduceMean = reduction(OpKind::ReduceMean, "ReduceMean", decompose_mean);
const OpDef kReduceL1 = reduction(OpKind::ReduceL1, "ReduceL1", decompose_l1);
const OpDef kReduceL2 = reduction(OpKind::ReduceL2, "ReduceL2", decompose_l2, gradient_of_l2);
const OpDef kReduceLogSum = reduction(OpKind::ReduceLogSum, "ReduceLogSum", decompose_log_sum);
const OpDef kReduceLogSumExp =
    reduction(OpKind::ReduceLogSumExp, "ReduceLogSumExp", decompose_log_sum_exp, gradient_of_log_sum_exp);
const OpDef kReduceSumSquare = reduction(OpKind::ReduceSumSquare, "ReduceSumSquare", decompose_sum_square);

const OpDef kSum{.kind = OpKind::Sum,
                 .name = "Sum",
                 .onnx = {"Sum"},
                 .inputs = {1, -1},
                 .infer = infer_broadcast,
                 .decompose = decompose_variadic_sum};

const OpDef kMean{.kind = OpKind::Mean,
                  .name = "Mean",
                  .onnx = {"Mean"},
                  .inputs = {1, -1},
                  .infer = infer_broadcast,
                  .decompose = decompose_variadic_mean};

}  // namespace weftc

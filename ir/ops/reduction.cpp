// Reductions over attribute `axes`, and the arg-reductions over `axis`. Mean, norms and the like are composite
// (composite_reduction). A slice of a reduced dimension makes a sum, maximum, minimum or product partial, which
// an all-reduce of the same kind completes; ArgMax needs its axis whole, since no collective reduces pairs
// (value, index).
#include "ir/ops/reduction.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/ops/gradient.h"

namespace weftc {

std::optional<std::vector<int64_t>> reduced_axes(const OpView& op) {
  const int ndim = op.type(0).ndim();
  std::optional<std::vector<int64_t>> axes = op.axes("axes", ndim);
  if (!axes) return {};
  if (axes->empty() && !int_of(op.op(), "noop_with_empty_axes")) return range_of(0, ndim);
  std::sort(axes->begin(), axes->end());
  return axes;
}

/// The shape without the axes, or with extent 1 there.
static Shape reduced_shape(const Shape& shape, const std::vector<int64_t>& axes, bool keepdims) {
  Shape result;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!contains(axes, static_cast<int64_t>(d)))
      result.push_back(shape[d]);
    else if (keepdims)
      result.push_back({1, {}});
  }
  return result;
}

bool infer_reduction(const OpView& op, std::vector<TensorType>& results) {
  if (!is_known(op, 1, "axes", "list of axes")) return false;
  const std::optional<std::vector<int64_t>> axes = reduced_axes(op);
  if (!axes) return false;
  results = {{op.type(0).dtype, reduced_shape(op.type(0).shape, *axes, int_of(op.op(), "keepdims")), {}}};
  return true;
}

void canonical_reduction(Op& op, const OpView& view) {
  fill_defaults(op);
  op.set("axes", *reduced_axes(view));
  op.set("noop_with_empty_axes", int64_t{1});  // an empty list now means no axis
}

/// The rule of a reduction of operand 0: a factor for each dim; for `axes` with the role and kind of `reduced`. A kept
/// dim of extent 1 has no factor.
static FactorRule reduction_rule(const OpView& op, const std::vector<int64_t>& axes, const Factor& reduced) {
  const Shape& shape = op.type(0).shape;
  FactorRule rule = pass_rule(shape);
  const bool keepdims = op.result_type(0).ndim() == op.type(0).ndim();
  std::vector<int> in, out;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    in.push_back(d);
    if (!contains(axes, d)) {
      out.push_back(d);
      continue;
    }
    rule.factors[d].role = reduced.role;
    rule.factors[d].reduce = reduced.reduce;
    if (keepdims) out.push_back(-1);
  }
  rule.inputs = {in};
  rule.outputs = {out};
  return rule;
}

template <ReduceOp kReduce>
static FactorRule factors_reduction(const OpView& op) {
  return reduction_rule(op, *reduced_axes(op), {0, Factor::Role::Reduce, kReduce});
}

/// The identity of an integer reduction: the smallest number of the type for a maximum, and so on.
static int64_t int_identity(ReduceOp reduce, DType dtype) {
  const bool is_signed = is_signed_int(dtype);
  const int bits = static_cast<int>(dtype_bytes(dtype)) * 8;
  switch (reduce) {
    case ReduceOp::Sum:
      return 0;
    case ReduceOp::Prod:
      return 1;
    case ReduceOp::Max:
      return is_signed ? INT64_MIN >> (64 - bits) : 0;
    case ReduceOp::Min:
      return is_signed ? INT64_MAX >> (64 - bits) : dtype == DType::Bool ? 1 : wrap(dtype, -1);
  }
  return 0;
}

/// Sums and products wrap; a maximum of u64 compares as unsigned, since integers are kept in 64 signed bits.
static int64_t combine_int(ReduceOp reduce, int64_t a, int64_t b, DType dtype) {
  const bool less = dtype == DType::U64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
  switch (reduce) {
    case ReduceOp::Sum:
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    case ReduceOp::Prod:
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case ReduceOp::Max:
      return less ? b : a;
    case ReduceOp::Min:
      return less ? a : b;
  }
  return 0;
}

/// NaN wins in a maximum or minimum, as in NumPy and in the emitted code.
static double combine_real(ReduceOp reduce, double a, double b) {
  switch (reduce) {
    case ReduceOp::Sum:
      return a + b;
    case ReduceOp::Prod:
      return a * b;
    case ReduceOp::Max:
      return std::isnan(a) ? a : std::isnan(b) || b > a ? b : a;
    case ReduceOp::Min:
      return std::isnan(a) ? a : std::isnan(b) || b < a ? b : a;
  }
  return 0;
}

/// Strides of the result along the dimensions of the operand, 0 along reduced ones.
static Dims result_strides(const Dims& dims, const std::vector<int64_t>& axes) {
  Dims strides(dims.size(), 0);
  int64_t stride = 1;
  for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
    if (contains(axes, d)) continue;
    strides[d] = stride;
    stride *= dims[d];
  }
  return strides;
}

/// Visits the operand in row-major order and combines each element into the result.
template <ReduceOp kReduce>
static void eval_reduction(EvalContext& context) {
  const Tensor& x = context.in(0);
  std::vector<int64_t> axes = ints_of(context.op, "axes");
  for (int64_t& axis : axes) axis = from_front(axis, static_cast<int64_t>(x.dims.size()));
  if (axes.empty() && !int_of(context.op, "noop_with_empty_axes"))
    axes = range_of(0, static_cast<int64_t>(x.dims.size()));
  const Dims strides = result_strides(x.dims, axes);
  Tensor result(x.dtype, context.result_dims[0]);
  std::fill(result.real.begin(), result.real.end(), reduce_identity(kReduce));
  std::fill(result.integers.begin(), result.integers.end(), x.is_real() ? 0 : int_identity(kReduce, x.dtype));
  for (Index at(x.dims); at.more(); at.next()) {
    const int64_t to = at.dot(strides);
    if (x.is_real())
      result.real[to] = combine_real(kReduce, result.real[to], x.real[at.linear()]);
    else
      result.put_int(to, combine_int(kReduce, result.integers[to], x.integers[at.linear()], x.dtype));
  }
  context.results[0] = std::move(result);
}

Term with_reduced(const BackwardStep& s, const Term& reduced) {
  Dims dims = s.in(0).dims();
  for (const int64_t axis : s.op.ints("axes")) dims[static_cast<size_t>(axis)] = 1;
  return reduced.reshape(dims);
}

static Derivatives gradient_of_sum(const BackwardStep& s) { return {with_reduced(s, s.g).expand(s.in(0).dims())}; }

/// Equal maxima share the derivative.
static Derivatives gradient_of_extreme(const BackwardStep& s) {
  const Term chosen = (s.in(0) == with_reduced(s, s.out())).cast(s.g.dtype());
  const Term shared = chosen / chosen.reduce(OpKind::ReduceSum, s.op.ints("axes"), true);
  return {shared * with_reduced(s, s.g)};
}

/// The product of the other elements. If one element is 0, only that one has a derivative; with several zeros none has.
static Derivatives gradient_of_product(const BackwardStep& s) {
  const std::vector<int64_t>& axes = s.op.ints("axes");
  const Term x = s.in(0), is_zero = x == 0, factors = is_zero.choose(s.g.scalar(1), x);
  const Term zeros = is_zero.cast(s.g.dtype()).reduce(OpKind::ReduceSum, axes, true);
  const Term product = factors.reduce(OpKind::ReduceProd, axes, true);
  const Term others = (zeros == is_zero.cast(s.g.dtype())).choose(product / factors, s.zero());
  return {others * with_reduced(s, s.g)};
}

template <ReduceOp kReduce>
static OpDef reduction(OpKind kind, const char* name) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name};
  def.attrs = reduction_attrs();
  def.inputs = {1, 2};
  def.category = Category::Reduction;
  def.constant_operands = {{1, "axes", AttrType::Ints}};
  def.infer = infer_reduction;
  def.canonicalize = canonical_reduction;
  def.factors = factors_reduction<kReduce>;
  if (kReduce == ReduceOp::Sum) def.linear = {{0}};
  def.gradient = kReduce == ReduceOp::Sum    ? gradient_of_sum
                 : kReduce == ReduceOp::Prod ? gradient_of_product
                                             : gradient_of_extreme;
  def.eval = eval_reduction<kReduce>;
  return def;
}

const OpDef kReduceSum = reduction<ReduceOp::Sum>(OpKind::ReduceSum, "ReduceSum");
const OpDef kReduceMax = reduction<ReduceOp::Max>(OpKind::ReduceMax, "ReduceMax");
const OpDef kReduceMin = reduction<ReduceOp::Min>(OpKind::ReduceMin, "ReduceMin");
const OpDef kReduceProd = reduction<ReduceOp::Prod>(OpKind::ReduceProd, "ReduceProd");

/// Indices are int64 (ONNX ArgMax-13).
static bool infer_arg(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim());
  if (!axis) return false;
  results = {{DType::I64, reduced_shape(op.type(0).shape, {*axis}, int_of(op.op(), "keepdims")), {}}};
  return true;
}

/// The axis is whole: a rank's maximum does not give the index in the tensor without the other ranks' values.
static FactorRule factors_arg(const OpView& op) {
  return reduction_rule(op, {from_front(int_of(op.op(), "axis"), op.type(0).ndim())},
                        {0, Factor::Role::Whole, ReduceOp::Max});
}

/// Takes the first best index, or the last one with select_last_index.
template <bool kLargest>
static void eval_arg(EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t axis = from_front(int_of(context.op, "axis"), static_cast<int64_t>(x.dims.size()));
  const bool last = int_of(context.op, "select_last_index");
  const Dims strides = result_strides(x.dims, {axis});
  Tensor result(DType::I64, context.result_dims[0]);
  const double worst = reduce_identity(kLargest ? ReduceOp::Max : ReduceOp::Min);
  std::vector<double> best(result.size(), worst);
  for (Index at(x.dims); at.more(); at.next()) {
    const int64_t to = at.dot(strides);
    const double value = x.at(at.linear());
    const bool better = kLargest ? value > best[to] : value < best[to];
    if (!better && !(last && value == best[to])) continue;
    best[to] = value;
    result.integers[to] = at[static_cast<int>(axis)];
  }
  context.results[0] = std::move(result);
}

template <bool kLargest>
static OpDef arg_reduction(OpKind kind, const char* name) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name};
  def.attrs = {{"axis", AttrType::Int, 0}, flag("keepdims", 1), flag("select_last_index", 0)};
  def.category = Category::Reduction;
  def.infer = infer_arg;
  def.canonicalize = canonical_axis;
  def.factors = factors_arg;
  def.eval = eval_arg<kLargest>;
  return def;
}

const OpDef kArgMax = arg_reduction<true>(OpKind::ArgMax, "ArgMax");
const OpDef kArgMin = arg_reduction<false>(OpKind::ArgMin, "ArgMin");

}  // namespace weftc

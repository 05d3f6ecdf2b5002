// CumSum (ONNX CumSum-14) and CumProd (ONNX CumProd-26): the sum or the product of all elements up to each one along an
// axis. `exclusive` omits the element itself, `reverse` begins at the end. The axis must be whole on each rank, since a
// prefix needs all earlier elements; other dimensions may be sliced.
//
//   x = 1 2 3 4    ->    1 3 6 10     exclusive: 0 1 3 6     reverse: 10 9 7 4     CumProd: 1 2 6 24
#include "ir/ops/gradient.h"

namespace weftc {

/// The operand's type; the axis is an operand of ONNX that must be known.
static bool infer_running(const OpView& op, std::vector<TensorType>& results) {
  if (!is_given(op, 1, "axis", "axis") || !op.axis("axis", op.type(0).ndim())) return false;
  return infer_same(op, results);
}

/// The axis must be whole, all other dimensions pass.
static FactorRule factors_running(const OpView& op) {
  FactorRule rule = pass_rule(op.type(0).shape);
  rule.factors[from_front(int_of(op.op(), "axis"), op.type(0).ndim())].role = Factor::Role::Whole;
  std::vector<int>& dims = rule.inputs.emplace_back();
  for (int d = 0; d < op.type(0).ndim(); ++d) dims.push_back(d);
  rule.outputs = {dims};
  return rule;
}

namespace {
/// The running value of one line: reals in double, integers wrap.
struct Running {
  explicit Running(bool is_product) : is_product(is_product), real(is_product), whole(is_product) {}
  void take(const Tensor& x, int64_t i) {
    if (x.is_real())
      real = is_product ? real * x.real[i] : real + x.real[i];
    else
      whole = is_product ? whole * static_cast<uint64_t>(x.integers[i]) : whole + static_cast<uint64_t>(x.integers[i]);
  }
  void put(Tensor& result, int64_t i) const {
    if (result.is_real())
      result.real[i] = real;
    else
      result.put_int(i, static_cast<int64_t>(whole));
  }
  bool is_product;
  double real;
  uint64_t whole;
};
}  // namespace

/// One running value for each index of the other dims.
template <bool kProduct>
static void eval_running(EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t axis = from_front(int_of(context.op, "axis"), static_cast<int64_t>(x.dims.size()));
  const bool exclusive = int_of(context.op, "exclusive"), reverse = int_of(context.op, "reverse");
  const int64_t stride = strides_of(x.dims)[axis], count = x.dims[axis];
  Dims others = x.dims;
  others[axis] = 1;
  Tensor result(x.dtype, context.result_dims[0]);
  const Dims strides = strides_of(x.dims);
  for (Index at(others); at.more(); at.next()) {
    Running running(kProduct);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t to = at.dot(strides) + (reverse ? count - 1 - i : i) * stride;
      if (exclusive) running.put(result, to);
      running.take(x, to);
      if (!exclusive) running.put(result, to);
    }
  }
  context.results[0] = std::move(result);
}

static OpDef running(OpKind kind, const char* name, int since, EvalFn eval) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name, since};
  def.attrs = {{"axis", AttrType::Int}, flag("exclusive", 0), flag("reverse", 0)};
  def.inputs = {1, 2};
  def.category = Category::Scan;
  def.constant_operands = {{1, "axis", AttrType::Int}};
  def.infer = infer_running;
  def.canonicalize = canonical_axis;
  def.factors = factors_running;
  def.eval = eval;
  return def;
}

/// The running sum from the other end: over every result that uses an element.
static Term sum_of_readers(const BackwardStep& s, const Term& derivatives) {
  Attrs attrs = s.op.attrs;
  for (Attr& attr : attrs)
    if (attr.name == "reverse") attr.value = int64_t{1} - std::get<int64_t>(attr.value);
  return {s.build, s.build.op(OpKind::CumSum, {derivatives.value()}, attrs)};
}

static Derivatives gradient_of_running_sum(const BackwardStep& s) { return {sum_of_readers(s, s.g)}; }

/// The derivative of a running product. Before the first 0, it is the sum of g * y over the results that use an
/// element, divided by the element. For the first 0 the products are computed again without it. After it products are 0
/// whatever an element is.
static Derivatives gradient_of_running_product(const BackwardStep& s) {
  const Term x = s.in(0), is_zero = x == 0;
  Attrs along = s.op.attrs;
  for (Attr& attr : along)
    if (attr.name == "exclusive") attr.value = int64_t{0};
  const Term zeros(s.build, s.build.op(OpKind::CumSum, {is_zero.cast(s.g.dtype()).value()}, along));
  const Term is_first = is_zero && zeros == 1;
  const Term factors = is_first.choose(s.g.scalar(1), x);
  const Term products(s.build, s.build.op(OpKind::CumProd, {factors.value()}, s.op.attrs));
  const Term in_front = sum_of_readers(s, s.g * s.out()) / is_zero.choose(s.g.scalar(1), x);
  const Term of_first = is_first.choose(sum_of_readers(s, s.g * products), s.zero());
  return {(zeros == 0).choose(in_front, of_first)};
}

/// A sum is linear: partial sums may pass it (L6).
static OpDef running_sum() {
  OpDef def = running(OpKind::CumSum, "CumSum", 11, eval_running<false>);
  def.linear = {{0}};
  def.gradient = gradient_of_running_sum;
  return def;
}

static OpDef running_product() {
  OpDef def = running(OpKind::CumProd, "CumProd", 26, eval_running<true>);
  def.gradient = gradient_of_running_product;
  return def;
}

const OpDef kCumSum = running_sum();
const OpDef kCumProd = running_product();

}  // namespace weftc

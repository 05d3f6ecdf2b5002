// TopK (ONNX 24): the first k elements along an axis, largest or smallest first, with their indices. NaN is the largest
// value, as in NumPy. If two elements are equal, the one with the lower index comes first. The elements are sorted
// whatever `sorted` is. The axis is whole, because the choice depends on all its elements. If data decides k, it is a
// run-time length.
#include <algorithm>
#include <cmath>

#include "ir/ops/gradient.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/selection.h"

namespace weftc {

/// The requested number of elements: an attribute, or an operand that is known as a number or a length.
static std::optional<Length> count_asked(const OpView& op) {
  if (op.op().has("k")) return Length(int_of(op.op(), "k"));
  const std::optional<std::vector<Length>> lengths = op.lengths(1);
  return lengths && lengths->size() == 1 ? std::optional((*lengths)[0]) : std::nullopt;
}

/// Whether data decides the number of elements.
static bool is_counted(const OpView& op) { return op.has(1) && !count_asked(op); }

static bool infer_counted_top_k(const OpView& op, int64_t axis, std::vector<TensorType>& results) {
  if (op.type(1).count() != 1 || op.type(1).dtype != DType::I64 || op.type(0).shape[axis].is_run_time())
    return is_given(op, 1, "k", "number of elements");
  if (!may_have_counts(op)) return false;
  results = {{op.type(0).dtype, op.type(0).shape, {}}, {DType::I64, op.type(0).shape, {}}};
  return true;
}

static bool infer_top_k(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim());
  const DType dtype = op.type(0).dtype;
  if (!axis) return false;
  if (dtype == DType::Bool) return op.fail("top-k-dtype", "elements of type bool have no order");
  if (is_counted(op)) return infer_counted_top_k(op, *axis, results);
  const std::optional<Length> count = count_asked(op);
  if (!count) return is_given(op, 1, "k", "number of elements");
  const Extent& extent = op.type(0).shape[*axis];
  if (count->low() < 0 || (count->is_constant() && count->constant() > extent.bound))
    return op.fail("top-k-count", "{} elements are asked for along axis {}, which has {}", count->text(), *axis,
                   extent.bound);
  const Extent asked = op.extent(*count);
  if (asked.bound > extent.bound)
    return op.fail("top-k-count-unsupported",
                   "{} elements, {} at most, are asked for along axis {}, which has {} at most", count->text(),
                   asked.bound, *axis, extent.bound);
  Shape shape = op.type(0).shape;
  shape[*axis] = asked;
  results = {{dtype, shape, {}}, {DType::I64, shape, {}}};
  return true;
}

/// Every dimension but the axis passes; the results' axis is a different factor than the operand's.
static FactorRule factors_top_k(const OpView& op) {
  const int axis = static_cast<int>(from_front(int_of(op.op(), "axis"), op.type(0).ndim()));
  FactorRule rule = pass_rule(op.type(0).shape);
  rule.factors[axis].role = Factor::Role::Whole;
  std::vector<int> dims;
  for (int d = 0; d < op.type(0).ndim(); ++d) dims.push_back(d);
  rule.inputs = {dims};
  dims[axis] = static_cast<int>(rule.factors.size());
  rule.factors.push_back({op.result_type(0).shape[axis].bound, Factor::Role::Whole, ReduceOp::Sum});
  rule.outputs.assign(op.op().outputs.size(), dims);
  return rule;
}

/// k is at most the extent of the axis.
static std::vector<LengthRelation> relate_top_k(const OpView& op) {
  const auto axis = static_cast<size_t>(from_front(int_of(op.op(), "axis"), op.type(0).ndim()));
  return {{"", length_of(op.result_type(0).shape[axis]), length_of(op.type(0).shape[axis]), true}};
}

/// True if element a of x comes before element b in the sorted order. Both are in the same line, so b has the greater
/// index iff it is later in memory.
static bool is_before(const Tensor& x, int64_t a, int64_t b, bool largest) {
  if (!x.is_real()) {
    if (x.integers[a] == x.integers[b]) return a < b;
    return int_less(x.integers[b], x.integers[a], x.dtype) == largest;
  }
  const double p = x.real[a], q = x.real[b];
  if (p == q || (std::isnan(p) && std::isnan(q))) return a < b;
  const bool greater = std::isnan(p) || p > q;
  return greater == largest;
}

static void eval_top_k(EvalContext& context) {
  const Tensor& x = context.in(0);
  const size_t axis = static_cast<size_t>(from_front(int_of(context.op, "axis"), static_cast<int64_t>(x.dims.size())));
  const bool largest = int_of(context.op, "largest") != 0;
  const Dims& dims = context.result_dims[0];
  Tensor values(x.dtype, dims), indices(DType::I64, dims);
  Dims lines = x.dims;
  lines[axis] = std::min<int64_t>(1, x.dims[axis]);
  const int64_t from_step = strides_of(x.dims)[axis], to_step = strides_of(dims)[axis];
  for (Index line(lines); line.more(); line.next()) {
    const int64_t from = line.dot(strides_of(x.dims)), to = line.dot(strides_of(dims));
    std::vector<int64_t> order;
    for (int64_t i = 0; i < x.dims[axis]; ++i) order.push_back(from + i * from_step);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return is_before(x, a, b, largest); });
    for (int64_t j = 0; j < dims[axis]; ++j) {
      values.copy_element(to + j * to_step, x, order[static_cast<size_t>(j)]);
      indices.integers[to + j * to_step] = (order[static_cast<size_t>(j)] - from) / from_step;
    }
  }
  context.results[0] = std::move(values);
  if (context.results.size() > 1) context.results[1] = std::move(indices);
}

/// A k that exceeds the extent is looked up outside of a table, which the program reports.
static std::vector<ValueId> decompose_counted_top_k(Builder& build, const OpView& op) {
  const int64_t axis = op.op().integer("axis"), most = op.type(0).shape[static_cast<size_t>(axis)].bound;
  const Term asked = Term(build, op.op().inputs[1]).reshape({});
  const Term within = gather(build, positions(build, DType::I64, most + 1, 0, 1), asked, 0);
  const Term count = (asked < 0.0).choose(asked.scalar(0), within);
  const Extent extent = build.counted_extent(count.value(), most);
  Op whole = op.op();
  whole.set("k", most);
  std::vector<ValueId> first = build.ops(OpKind::TopK, {whole.inputs[0]}, whole.attrs, 2);
  for (ValueId& v : first) v = shortened(build, v, axis, extent);
  return first;
}

/// Each selected element gets its derivative; result 1 has their indices.
static Derivatives gradient_of_top_k(const BackwardStep& s) {
  return {Term(
      s.build,
      s.build.op(OpKind::ScatterElements, {s.zeros_like(0).value(), s.op.outputs[1], s.g.value()},
                 {{"axis", s.op.integer("axis")}, {"onto_zeros", int64_t{1}}, {"reduction", std::string("add")}}))};
}

const OpDef kTopK{.kind = OpKind::TopK,
                  .name = "TopK",
                  .onnx = {"TopK"},
                  .attrs = {{"axis", AttrType::Int, -1}, {"k", AttrType::Int}, flag("largest", 1), flag("sorted", 1)},
                  .inputs = {1, 2},
                  .outputs = {1, 2},
                  .category = Category::Reduction,
                  .constant_operands = {{1, "k", AttrType::Int}},
                  .infer = infer_top_k,
                  .canonicalize =
                      [](Op& op, const OpView& view) {
                        canonical_axis(op, view);
                        if (!is_counted(view)) op.set("k", view.result_type(0).shape[op.integer("axis")].bound);
                      },
                  .factors = factors_top_k,
                  .relate = relate_top_k,
                  .gradient = gradient_of_top_k,
                  .kept_results = 2,
                  .eval = eval_top_k,
                  .decompose = decompose_counted_top_k,
                  .is_primitive = [](const OpView& op) { return !op.has(1); },
                  .is_typed_by_parts = is_counted};

}  // namespace weftc

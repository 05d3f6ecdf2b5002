// Unique (ONNX Unique-11): the different elements of a tensor, or the different slices along an axis, each with the
// position of its first occurrence and the number of occurrences.
//
//   x = 2 1 1 3 3     sorted  1 1 2 3 3   from  1 2 0 3 4   is new  1 0 1 1 0
//   y = 1 2 3         first occurrences  1 0 3     inverse  1 0 0 2 2     counts  2 1 2
//
// Rows are sorted by their last element first: a sort keeps the order of equal elements.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/ops/formula.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/selection.h"
#include "ir/ops/step_loop.h"

namespace weftc {

namespace {

/// The dimension whose slices are compared; nothing for single elements.
std::optional<size_t> compared_axis(const Op& op, int64_t ndim) {
  if (!op.has("axis")) return {};
  return static_cast<size_t>(from_front(op.integer("axis"), ndim));
}

/// Whether one number sorts before another. NaN equals itself here and comes last.
bool is_less(const Tensor& x, int64_t a, int64_t b) {
  if (!x.is_real()) return int_less(x.integers[a], x.integers[b], x.dtype);
  const double p = x.real[a], q = x.real[b];
  return std::isnan(q) ? !std::isnan(p) : p < q;
}

/// The slices of a tensor along an axis, or its elements.
class Slices {
 public:
  Slices(const Tensor& x, std::optional<size_t> axis) : x_(x) {
    if (!axis) {
      count_ = x.size(), inner_ = outer_ = 1;
      return;
    }
    inner_ = strides_of(x.dims)[*axis];
    count_ = x.dims[*axis];
    outer_ = element_count(Dims(x.dims.begin(), x.dims.begin() + static_cast<long>(*axis)));
  }

  int64_t count() const { return count_; }
  bool less(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < outer_; ++o)
      for (int64_t i = 0; i < inner_; ++i) {
        const int64_t p = (o * count_ + a) * inner_ + i, q = (o * count_ + b) * inner_ + i;
        if (is_less(x_, p, q)) return true;
        if (is_less(x_, q, p)) return false;
      }
    return false;
  }

 private:
  const Tensor& x_;
  int64_t count_, inner_, outer_;
};

/// The results of Unique except the values.
struct Found {
  std::vector<int64_t> first, inverse, counts;
};

Found find_unique(const Tensor& x, std::optional<size_t> axis, bool is_sorted) {
  const Slices slices(x, axis);
  std::vector<int64_t> order(static_cast<size_t>(slices.count()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return slices.less(a, b); });
  std::vector<int64_t> first_of(order.size());  // by element: the first one that equals it
  for (size_t i = 0; i < order.size(); ++i) {
    const bool is_new = i == 0 || slices.less(order[i - 1], order[i]);
    first_of[order[i]] = is_new ? order[i] : first_of[order[i - 1]];
  }
  Found found;
  for (const int64_t at : is_sorted ? order : range_of(0, slices.count()))
    if (first_of[at] == at) found.first.push_back(at);
  std::vector<int64_t> number(order.size());
  for (size_t i = 0; i < found.first.size(); ++i) number[found.first[i]] = static_cast<int64_t>(i);
  found.counts.resize(found.first.size());
  for (const int64_t first : first_of) {
    found.inverse.push_back(number[first]);
    ++found.counts[number[first]];
  }
  return found;
}

void eval_unique(EvalContext& context) {
  const Tensor& x = context.in(0);
  const std::optional<size_t> axis = compared_axis(context.op, static_cast<int64_t>(x.dims.size()));
  const Found found = find_unique(x, axis, int_of(context.op, "sorted") != 0);
  Tensor values(x.dtype, context.result_dims[0]);
  const int64_t inner = axis ? strides_of(x.dims)[*axis] : 1, from = axis ? x.dims[*axis] : x.size();
  const auto count = static_cast<int64_t>(found.first.size());
  for (int64_t i = 0; i < values.size(); ++i) {
    const int64_t outer = i / (count * inner), at = found.first[i / inner % count];
    values.copy_element(i, x, (outer * from + at) * inner + i % inner);
  }
  context.results[0] = std::move(values);
  const std::vector<int64_t>* lists[] = {&found.first, &found.inverse, &found.counts};
  for (size_t r = 1; r < context.results.size(); ++r) context.results[r] = Tensor::ints(*lists[r - 1]);
}

bool infer_unique(const OpView& op, std::vector<TensorType>& results) {
  if (op.op().has("axis") && !op.axis("axis", op.type(0).ndim())) return false;
  const std::optional<size_t> axis = compared_axis(op.op(), op.type(0).ndim());
  const Extent all = axis ? op.type(0).shape[*axis] : op.extent(element_length(op.type(0).shape));
  const std::optional<Tensor> known = op.known(0);
  if (!known && !may_have_counts(op)) return false;
  const Extent count{known ? static_cast<int64_t>(find_unique(*known, axis, true).first.size()) : all.bound};
  Shape shape = axis ? op.type(0).shape : Shape{count};
  if (axis) shape[*axis] = count;
  results = {
      {op.type(0).dtype, shape, {}}, {DType::I64, {count}, {}}, {DType::I64, {all}, {}}, {DType::I64, {count}, {}}};
  return true;
}

/// Slices in ascending order: the source of each, and whether it differs from the previous one.
struct Order {
  Term from, is_new;  // [n]
};

/// Elements that differ; NaN equals NaN.
Term differs(Term a, Term b) {
  Term differs = (a == b).apply(OpKind::Not);
  if (!is_float(a.dtype())) return differs;
  return differs && (a.apply(OpKind::IsNaN) && b.apply(OpKind::IsNaN)).apply(OpKind::Not);
}

/// 0, 1 ... along the first dimension of a value.
Term list_of_positions(Builder& build, ValueId like) {
  const Shape shape{build.type(like).shape[0]};
  return {build,
          build.with_lengths(build.op(OpKind::Iota, {}, {{"axis", int64_t{0}}, {"shape", bounds(shape)}}), shape)};
}

/// The sorted list and the source of each of its elements.
std::vector<ValueId> sorted(Builder& build, ValueId list) {
  const Shape shape = build.type(list).shape;
  std::vector<ValueId> made =
      build.ops(OpKind::TopK, {list},
                {{"axis", int64_t{0}}, {"k", shape[0].bound}, {"largest", int64_t{0}}, {"sorted", int64_t{1}}}, 2);
  for (const ValueId v : made) build.with_lengths(v, shape);
  return made;
}

Order order_of_elements(Builder& build, ValueId list) {
  const std::vector<ValueId> made = sorted(build, list);
  const Term values(build, made[0]), at = list_of_positions(build, list);
  const Term before = pick(build, values, (at - 1).apply(OpKind::Max, 0.0), 0);
  return {{build, made[1]}, (at == 0.0).apply(OpKind::Or, differs(values, before))};
}

/// The order of rows [n, m]: a loop sorts by each column, the last one first.
Order order_of_rows(Builder& build, ValueId rows) {
  const Length count = length_of(build.type(rows).shape[1]);
  const Term at = list_of_positions(build, rows);
  StepLoop loop(build, "column", build.length(count));
  const Term order(loop.body(), loop.carry(at.value()));
  const Term columns(loop.body(), loop.capture(build.transpose(rows, {1, 0})));
  const Term last(loop.body(), loop.capture(build.length(count - 1)));
  const Term number = last - Term(loop.body(), loop.iteration());
  const Term keys = pick(loop.body(), pick(loop.body(), columns, number, 0), order, 0);
  loop.next({pick(loop.body(), order, {loop.body(), sorted(loop.body(), keys.value())[1]}, 0).value()});
  const Term from(build, loop.finish()[0]), all(build, rows);
  const Term here = pick(build, all, from, 0);
  const Term before = pick(build, all, pick(build, from, (at - 1).apply(OpKind::Max, 0.0), 0), 0);
  const Term is_other = differs(here, before).cast(DType::I32).reduce(OpKind::ReduceMax, {1}, false) > 0.0;
  return {from, (at == 0.0).apply(OpKind::Or, is_other)};
}

/// A list of this shape with `values` at the positions `at`, and zeros elsewhere.
Term scattered(Builder& build, const Shape& shape, Term at, Term values, const char* reduction) {
  const ValueId empty =
      build.with_lengths(build.op(OpKind::Expand, {values.scalar(0).value()}, {{"shape", bounds(shape)}}), shape);
  return {build, build.op(OpKind::ScatterElements, {empty, at.value(), values.value()},
                          {{"axis", int64_t{0}}, {"reduction", std::string(reduction)}, {"inside", int64_t{1}}})};
}

/// For each element of a mask, the number of true ones up to it, less one: this numbers the true ones.
Term numbers_of(Builder& build, Term mask) {
  return Term(build, build.op(OpKind::CumSum, {mask.cast(DType::I64).value()}, {{"axis", int64_t{0}}})) - 1;
}

/// The positions of first occurrences, and for each element the occurrence that it equals. They are in ascending order
/// of the values or in order of occurrence.
struct Groups {
  ValueId first;
  Term inverse;
};
Groups groups_of(Builder& build, const Order& order, bool is_sorted) {
  const Shape shape = build.type(order.from.value()).shape;
  const int64_t most = shape[0].bound;
  const ValueId news = positions_of_true(build, order.is_new.value(), most);
  const ValueId first = pick(build, order.from, {build, news}, 0).value();
  const Term inverse = scattered(build, shape, order.from, numbers_of(build, order.is_new), "none");
  if (is_sorted) return {first, inverse};
  const Term is_first = scattered(build, shape, order.from, order.is_new.cast(DType::I32), "none") > 0.0;
  const Term first_of = pick(build, {build, first}, inverse, 0);
  return {positions_of_true(build, is_first.value(), most), pick(build, numbers_of(build, is_first), first_of, 0)};
}

/// The slices along an axis as rows [n, m].
ValueId rows_of(Builder& build, const OpView& op, ValueId x, size_t axis) {
  Shape others = op.type(0).shape;
  const Extent rows = others[axis];
  others.erase(others.begin() + static_cast<long>(axis));
  std::vector<int64_t> perm = range_of(0, op.type(0).ndim());
  std::rotate(perm.begin(), perm.begin() + static_cast<long>(axis), perm.begin() + static_cast<long>(axis) + 1);
  return build.reshape_to(build.transpose(x, perm), {rows, joined(op, others, 0, others.size())});
}

std::vector<ValueId> decompose_unique(Builder& build, const OpView& op) {
  const std::optional<size_t> axis = compared_axis(op.op(), op.type(0).ndim());
  if (op.type(0).count() == 0) {
    op.fail("unique-empty-unsupported", "a tensor without elements is not supported");
    return {};
  }
  if (op.op().has("count_bound")) {
    op.fail("unique-bound-unsupported", "--dim cannot bound how many elements are different");
    return {};
  }
  // Bools are compared as numbers: false before true.
  const bool is_bool = op.type(0).dtype == DType::Bool;
  const ValueId given = is_bool ? build.cast(op.op().inputs[0], DType::U8) : op.op().inputs[0];
  const ValueId x = axis ? given : flattened(build, given);
  const Order order = axis ? order_of_rows(build, rows_of(build, op, x, *axis)) : order_of_elements(build, x);
  const Groups groups = groups_of(build, order, int_of(op.op(), "sorted") != 0);
  const Shape shape = build.type(order.from.value()).shape;
  const Extent count = build.type(groups.first).shape[0];
  const ValueId ones = build.with_lengths(
      build.op(OpKind::Expand, {groups.inverse.scalar(1).value()}, {{"shape", bounds(shape)}}), shape);
  const Term counts = scattered(build, shape_of({shape[0].bound}), groups.inverse, {build, ones}, "add");
  const Term values = pick(build, {build, x}, {build, groups.first}, static_cast<int64_t>(axis.value_or(0)));
  return {values.cast(op.type(0).dtype).value(), groups.first, groups.inverse.value(),
          shortened(build, counts.value(), 0, count)};
}

}  // namespace

const OpDef kUnique{.kind = OpKind::Unique,
                    .name = "Unique",
                    .onnx = {"Unique", 11},
                    .attrs = {{"axis", AttrType::Int}, flag("sorted", 1)},
                    .outputs = {1, 4},
                    .infer = infer_unique,
                    .eval = eval_unique,
                    .decompose = decompose_unique,
                    .is_typed_by_parts = [](const OpView& op) { return !op.known(0); }};

}  // namespace weftc

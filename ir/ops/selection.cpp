// NonZero (ONNX NonZero-13) and Compress-11 select elements by data.
//
//   NonZero  0 3 0      ->  0 1       Compress [a b c] by [1 0 1]  ->  a c
//            0 0 5          1 2
//
// TruePositions finds where a mask is true; views and gathers do the rest.
#include "ir/ops/selection.h"

#include <algorithm>

#include "ir/ops/formula.h"
#include "ir/ops/view.h"

namespace weftc {

ValueId shortened(Builder& build, ValueId x, int64_t axis, const Extent& extent) {
  Shape shape = build.type(x).shape;
  shape[static_cast<size_t>(axis)] = extent;
  const ValueId first = build.op(OpKind::Slice, {x}, slice_of(build.dims(x), axis, 0, extent.bound));
  return build.with_lengths(first, shape);
}

ValueId positions_of_true(Builder& build, ValueId mask, int64_t most) {
  if (most == 0) return build.ints({});
  const std::vector<ValueId> found = build.ops(OpKind::TruePositions, {mask}, {{"most", most}}, 2);
  return shortened(build, found[0], 0, build.counted_extent(found[1], most));
}

Length element_length(const Shape& shape) {
  Length length = 1;
  for (const Extent& extent : shape) length = length * length_of(extent);
  return length;
}

/// Joins all dimensions of a tensor into one.
static Extent flat_extent(const Shape& shape) {
  Extent all = ShapeValues().extent(element_length(shape));
  all.bound = element_count(bounds(shape));
  return all;
}

ValueId flattened(Builder& build, ValueId x) {
  const Shape shape = build.type(x).shape;
  return shape.size() == 1 ? x : build.reshape_to(x, {flat_extent(shape)});
}

bool may_have_counts(const OpView& op) {
  if (&op.graph() == &op.module().graph) return true;
  return op.fail("run-time-length-unsupported", "data decides the shape of a result inside a branch or loop");
}

namespace {

/// Positions after the last true one are undefined.
bool infer_true_positions(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 1, 1) || op.type(0).dtype != DType::Bool)
    return op.fail("true-positions-mask", "a mask is a list of bool");
  results = {{DType::I64, shape_of({int_of(op.op(), "most")}), {}}, {DType::I64, {}, {}}};
  return true;
}

/// The mask must be whole: the elements before a position depend on all of it.
FactorRule factors_true_positions(const OpView& op) {
  FactorRule rule;
  rule.factors = {{op.dims(0)[0], Factor::Role::Whole}, {int_of(op.op(), "most"), Factor::Role::Whole}};
  rule.inputs = {{0}};
  rule.outputs = {{1}, {}};
  return rule;
}

void eval_true_positions(EvalContext& context) {
  const Tensor& mask = context.in(0);
  Tensor positions(DType::I64, context.result_dims[0]), count(DType::I64, {});
  int64_t found = 0;
  for (int64_t i = 0; i < mask.size() && found < positions.size(); ++i)
    if (mask.int_at(i)) positions.integers[found++] = i;
  count.integers[0] = found;
  context.results[0] = std::move(positions);
  if (context.results.size() > 1) context.results[1] = std::move(count);
}

int64_t count_of_true(const Tensor& tensor) {
  int64_t count = 0;
  for (int64_t i = 0; i < tensor.size(); ++i) count += tensor.at(i) != 0;
  return count;
}

bool infer_non_zero(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<Tensor> known = op.known(0);
  if (!known && !may_have_counts(op)) return false;
  results = {{DType::I64, shape_of({op.type(0).ndim(), known ? count_of_true(*known) : op.type(0).count()}), {}}};
  return true;
}

void eval_non_zero(EvalContext& context) {
  const Tensor& x = context.in(0);
  Tensor result(DType::I64, context.result_dims[0]);
  int64_t found = 0;
  for (Index at(x.dims); at.more(); at.next()) {
    if (x.at(at.linear()) == 0) continue;
    for (int d = 0; d < static_cast<int>(x.dims.size()); ++d) result.integers[d * result.dims[1] + found] = at[d];
    ++found;
  }
  context.results[0] = std::move(result);
}

/// A dimension's length as a scalar: a constant, or the value that holds it.
Term length_term(Builder& build, const Extent& extent) { return {build, build.length(length_of(extent))}; }

/// Positions in a tensor of this shape, as one index for each dimension: [ndim, n].
ValueId indices_of(Builder& build, ValueId positions, const Shape& shape) {
  const Extent count = build.type(positions).shape[0];
  Term rest(build, build.reshape_to(positions, {{1, {}}, count}));
  std::vector<ValueId> rows(shape.size());
  for (size_t d = shape.size(); d-- > 1;) {
    const Term extent =
        shape[d].is_run_time() ? length_term(build, shape[d]) : rest.scalar(static_cast<double>(shape[d].bound));
    rows[d] = (rest % extent).value();
    rest = rest / extent;
  }
  rows[0] = rest.value();
  return rows.size() == 1 ? rows[0] : build.op(OpKind::Concat, rows, {{"axis", int64_t{0}}});
}

std::vector<ValueId> decompose_non_zero(Builder& build, const OpView& op) {
  const Shape shape = op.type(0).shape;
  const ValueId mask = flattened(build, build.cast(op.op().inputs[0], DType::Bool));
  const ValueId positions = positions_of_true(build, mask, op.type(0).count());
  if (!shape.empty()) return {indices_of(build, positions, shape)};
  const Extent count = build.type(positions).shape[0];  // a scalar has no dimension to index
  return {build.with_lengths(build.constant(Tensor(DType::I64, {0, 1})), {{0, {}}, count})};
}

/// The dimension that Compress shortens, and its extent.
struct CompressedAxis {
  size_t axis;
  Extent extent;
};
CompressedAxis compressed_axis(const OpView& op) {
  if (!op.op().has("axis")) return {0, flat_extent(op.type(0).shape)};
  const auto axis = static_cast<size_t>(from_front(op.op().integer("axis"), op.type(0).ndim()));
  return {axis, op.type(0).shape[axis]};
}

/// The number of conditions that are read. If the condition is shorter than the axis, later elements are omitted. If it
/// is longer (ONNX leaves that open), its rest is not read, as in ONNX Runtime.
Extent read_conditions(const OpView& op) {
  const Extent &conditions = op.type(1).shape[0], elements = compressed_axis(op).extent;
  const Length least = minimum(length_of(conditions), length_of(elements));
  if (least == length_of(conditions)) return conditions;
  return least.is_constant() ? Extent{least.constant(), {}}
                             : run_time_extent(std::min(conditions.bound, elements.bound), least);
}

/// The true positions of a constant condition.
std::optional<std::vector<int64_t>> known_positions(const OpView& op) {
  const std::optional<Tensor> known = op.known(1);
  if (!known) return {};
  std::vector<int64_t> chosen;
  const int64_t count = std::min(known->size(), compressed_axis(op).extent.bound);
  for (int64_t i = 0; i < count; ++i)
    if (known->int_at(i)) chosen.push_back(i);
  return chosen;
}

/// How many of these positions are in the axis. Each run of neighbours is a term; if there are many runs, all of them
/// must be in the axis.
Length chosen_length(const std::vector<int64_t>& chosen, const Length& axis) {
  constexpr int kMostRuns = 16;
  Length count;
  int runs = 0;
  for (size_t first = 0, end = 0; first < chosen.size(); first = end, ++runs) {
    for (end = first + 1; end < chosen.size() && chosen[end] == chosen[end - 1] + 1;) ++end;
    count = count + minimum(maximum(axis - chosen[first], 0), static_cast<int64_t>(end - first));
  }
  return runs > kMostRuns ? Length(static_cast<int64_t>(chosen.size())) : count;
}

bool infer_compress(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, 1, 1, 1) || !has_ndim(op, 0, 1)) return false;
  if (op.type(1).dtype != DType::Bool)
    return op.fail("compress-condition", "the condition has element type {}, expected bool",
                   dtype_name(op.type(1).dtype));
  if (op.op().has("axis") && !op.axis("axis", op.type(0).ndim())) return false;
  const std::optional<std::vector<int64_t>> known = known_positions(op);
  if (!known && !may_have_counts(op)) return false;
  const CompressedAxis at = compressed_axis(op);
  Shape shape = op.op().has("axis") ? op.type(0).shape : Shape{at.extent};
  shape[at.axis] =
      known ? op.extent(chosen_length(*known, length_of(at.extent))) : Extent{read_conditions(op).bound, {}};
  results = {{op.type(0).dtype, shape, {}}};
  return true;
}

/// The true positions of a constant condition that are in the axis.
ValueId positions_on_axis(Builder& build, const OpView& op, const std::vector<int64_t>& chosen) {
  const Extent count = op.result_type(0).shape[compressed_axis(op).axis];
  const ValueId all = build.ints(chosen);
  return count.is_run_time() ? shortened(build, all, 0, count) : all;
}

std::vector<ValueId> decompose_compress(Builder& build, const OpView& op) {
  const std::optional<std::vector<int64_t>> known = known_positions(op);
  const Extent read = read_conditions(op);
  ValueId condition = op.op().inputs[1];
  if (!known && !(read == op.type(1).shape[0])) condition = shortened(build, condition, 0, read);
  const ValueId positions =
      known ? positions_on_axis(build, op, *known) : positions_of_true(build, condition, read.bound);
  const ValueId x = op.op().has("axis") ? op.op().inputs[0] : flattened(build, op.op().inputs[0]);
  return {build.op(OpKind::Gather, {x, positions}, {{"axis", static_cast<int64_t>(compressed_axis(op).axis)}})};
}

}  // namespace

const OpDef kTruePositions{.kind = OpKind::TruePositions,
                           .name = "TruePositions",
                           .attrs = {{"most", AttrType::Int, {}, true}},
                           .outputs = {2, 2},
                           .category = Category::Index,
                           .infer = infer_true_positions,
                           .factors = factors_true_positions,
                           .eval = eval_true_positions};

const OpDef kNonZero{.kind = OpKind::NonZero,
                     .name = "NonZero",
                     .onnx = {"NonZero", 9},
                     .infer = infer_non_zero,
                     .eval = eval_non_zero,
                     .decompose = decompose_non_zero,
                     .is_typed_by_parts = [](const OpView& op) { return !op.known(0); }};

const OpDef kCompress{.kind = OpKind::Compress,
                      .name = "Compress",
                      .onnx = {"Compress", 9},
                      .attrs = {{"axis", AttrType::Int}},
                      .inputs = {2, 2},
                      .infer = infer_compress,
                      .decompose = decompose_compress,
                      .is_typed_by_parts = [](const OpView& op) { return !op.known(1); },
                      .takes_strings = true};

}  // namespace weftc

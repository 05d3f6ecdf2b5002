// ScatterElements and ScatterND (ONNX 18): a copy of the data in which updates replace, or are combined with, addressed
// elements. A rank that holds a slice of the data applies the updates that fall into it. Dims of the data therefore
// pass and no collective is needed; updates and indices are whole where they address.
//
//   data 0 0 0 0 sliced over 2 ranks, indices 1 2, updates 7 8:    rank 0: 0 7    rank 1: 8 0
#include <algorithm>
#include <utility>

#include "ir/ops/gradient.h"
#include "ir/ops/index.h"
#include "ir/ops/pointwise.h"

namespace weftc {

/// Checks common to both: one dtype, integer indices.
static bool check_scatter(const OpView& op) {
  const std::string& reduction = text_of(op.op(), "reduction");
  if (op.type(0).dtype != op.type(2).dtype)
    return op.fail("scatter-dtypes", "data and updates have element types {} and {}", dtype_name(op.type(0).dtype),
                   dtype_name(op.type(2).dtype));
  if (op.type(0).dtype == DType::String && reduction != "none")
    return op.fail("scatter-strings-unsupported", "'reduction' is '{}', but strings only replace others",
                   printable(reduction));
  return integer_operand(op, 1);
}

/// Replaced elements of the data have no influence on the result. All updates of an element are assumed to contribute.
/// `gather` reads where the scatter writes.
static Derivatives gradient_of_scatter(const BackwardStep& s, OpKind gather) {
  const std::string& reduction = text_of(s.op, "reduction");
  if (reduction != "none" && reduction != "add") {
    s.view.fail("gradient-unsupported", "there is no rule for the gradient of {} ('{}') with reduction '{}'",
                op_def(s.op).name, s.op.name, reduction);
    return {};
  }
  const Attrs axis = s.op.has("axis") ? Attrs{{"axis", s.op.integer("axis")}} : Attrs{};
  const Term read(s.build, s.build.op(gather, {s.g.value(), s.op.inputs[1]}, axis));
  if (reduction == "add") return {s.g, {}, read};
  const std::vector<ValueId> operands{s.g.value(), s.op.inputs[1], s.zeros_like(2).value()};
  return {Term(s.build, s.build.op(s.op.kind, operands, axis)), {}, read};
}

/// Writes one update into the data. Updates of one element are combined in row-major order; with "none" the last one
/// stays.
static void combine(Tensor& data, int64_t to, const Tensor& updates, int64_t from, const std::string& reduction) {
  if (reduction == "none") return data.copy_element(to, updates, from);
  if (data.is_real()) {
    double& a = data.real[to];
    const double b = updates.real[from];
    a = reduction == "add" ? a + b : reduction == "mul" ? a * b : reduction == "max" ? real_max(a, b) : real_min(a, b);
    return;
  }
  const int64_t a = data.integers[to], b = updates.integers[from];
  const bool less = int_less(a, b, data.dtype);
  data.put_int(to, reduction == "add"   ? int_add(a, b)
                   : reduction == "mul" ? int_multiply(a, b)
                   : reduction == "max" ? (less ? b : a)
                                        : (less ? a : b));
}

static bool is_one_dim(const Extent& a, const Extent& b) { return one_extent(a, b).has_value(); }

/// ScatterElements-18: indices and updates have one shape, with the data's number of dims.
static bool infer_scatter_elements(const OpView& op, std::vector<TensorType>& results) {
  if (!check_scatter(op) || !op.axis("axis", op.type(0).ndim())) return false;
  const Shape &indices = op.type(1).shape, &updates = op.type(2).shape;
  if (op.type(1).ndim() != op.type(0).ndim() || !std::ranges::equal(indices, updates, is_one_dim))
    return op.fail("scatter-elements-dims", "data, indices and updates have shapes {}, {} and {}",
                   shape_text(op.type(0).shape), shape_text(indices), shape_text(updates));
  return are_indices_inside(op) && infer_same(op, results);
}

/// True for updates added to zeros. A rank may then add only some of the updates: its result is a partial sum.
/// Derivatives set this attribute. Other data would be counted once for each part.
static bool adds_to_zeros(const OpView& op) { return op.op().integer_or("onto_zeros", 0) != 0; }

static Factor::Role role_of_updates(const OpView& op) {
  return adds_to_zeros(op) ? Factor::Role::Reduce : Factor::Role::Whole;
}

/// Factors: the dims of the data, then the other dims of the updates.
static FactorRule factors_scatter_elements(const OpView& op) {
  const Shape &data = op.type(0).shape, &updates = op.type(2).shape;
  const int axis = static_cast<int>(from_front(int_of(op.op(), "axis"), op.type(0).ndim()));
  FactorRule rule = pass_rule(data);
  rule.inputs.resize(3);
  for (int d = 0; d < static_cast<int>(data.size()); ++d) {
    rule.inputs[0].push_back(d);
    const bool shared = d != axis && data[d].bound == updates[d].bound;
    if (d != axis && !shared) rule.factors[d].role = Factor::Role::Whole;
    rule.inputs[1].push_back(shared ? d : static_cast<int>(rule.factors.size()));
    if (!shared) rule.factors.push_back({updates[d].bound, role_of_updates(op), ReduceOp::Sum});
  }
  rule.inputs[2] = rule.inputs[1];
  rule.outputs = {rule.inputs[0]};
  return rule;
}

/// Updates have the shape of the indices; outside the axis an index addresses its own position.
static std::vector<LengthRelation> relate_scatter_elements(const OpView& op) {
  const int axis = static_cast<int>(from_front(int_of(op.op(), "axis"), op.type(0).ndim()));
  std::vector<LengthRelation> relations = relations_of_indices(op, axis);
  for (int d = 0; d < op.type(0).ndim(); ++d) {
    const Length index = length_of(op.type(1).shape[d]);
    relations.push_back({"", index, length_of(op.type(2).shape[d])});
    if (d != axis) relations.push_back({"", index, length_of(op.type(0).shape[d]), true});
  }
  return relations;
}

/// The axis is addressed by the index, every other dim by the position of the update.
static void eval_scatter_elements(EvalContext& context) {
  Tensor result = context.in(0);
  const Tensor &indices = context.in(1), &updates = context.in(2);
  const int axis = static_cast<int>(from_front(int_of(context.op, "axis"), static_cast<int64_t>(result.dims.size())));
  const std::string& reduction = text_of(context.op, "reduction");
  const HeldIndices held(context, 0, axis);
  Dims strides = strides_of(result.dims);
  const int64_t stride = std::exchange(strides[axis], 0);
  for (Index at(indices.dims); at.more(); at.next()) {
    const int64_t to = held.local(indices.integers[at.linear()]);
    if (to >= 0) combine(result, at.dot(strides) + to * stride, updates, at.linear(), reduction);
  }
  context.results[0] = std::move(result);
}

const OpDef kScatterElements{
    .kind = OpKind::ScatterElements,
    .name = "ScatterElements",
    .onnx = {"ScatterElements", 11},
    .aliases = {{"Scatter", 9}},
    .attrs = {{"axis", AttrType::Int, 0},
              choice("reduction", "none", "none add mul max min"),
              {.name = "from_front", .type = AttrType::Int, .is_own = true},
              {.name = "inside", .type = AttrType::Int, .is_own = true},
              {.name = "onto_zeros", .type = AttrType::Int, .is_own = true}},
    .inputs = {3, 3},
    .category = Category::Index,
    .infer = infer_scatter_elements,
    .canonicalize = canonical_axis,
    .factors = factors_scatter_elements,
    .relate = relate_scatter_elements,
    .linear = {{2}},
    .is_linear = adds_to_zeros,
    .gradient = [](const BackwardStep& s) { return gradient_of_scatter(s, OpKind::GatherElements); },
    .eval = eval_scatter_elements,
    .takes_strings = true};

/// ScatterND-18: updates have the indices' dims without the tuple, then the data's dims that the tuple does not
/// address.
static bool infer_scatter_nd(const OpView& op, std::vector<TensorType>& results) {
  if (!check_scatter(op) || !has_ndim(op, 1, 1) || !has_ndim(op, 0, 1)) return false;
  const Shape &data = op.type(0).shape, &indices = op.type(1).shape, &updates = op.type(2).shape;
  const int64_t tuple = indices.back().bound;
  bool fits = !indices.back().is_run_time() && tuple >= 1 && tuple <= static_cast<int64_t>(data.size());
  if (fits) {
    Shape expected(indices.begin(), indices.end() - 1);
    expected.insert(expected.end(), data.begin() + tuple, data.end());
    fits = std::ranges::equal(updates, expected, is_one_dim);
  }
  if (!fits)
    return op.fail("scatter-nd-dims", "data, indices and updates have shapes {}, {} and {}", shape_text(data),
                   shape_text(indices), shape_text(updates));
  return are_indices_inside(op) && infer_same(op, results);
}

/// Factors: the dims of the data (addressed ones also pass: a rank applies the updates in its slice), then the dims of
/// the indices; a tuple is whole.
static FactorRule factors_scatter_nd(const OpView& op) {
  const Shape &data = op.type(0).shape, &indices = op.type(1).shape;
  const int ndim = static_cast<int>(data.size()), tuple = static_cast<int>(indices.back().bound);
  FactorRule rule = pass_rule(data);
  rule.inputs.resize(3);
  for (int d = 0; d < ndim; ++d) rule.inputs[0].push_back(d);
  for (const Extent& extent : indices) {
    rule.inputs[1].push_back(static_cast<int>(rule.factors.size()));
    rule.factors.push_back({extent.bound, role_of_updates(op), ReduceOp::Sum});
  }
  rule.factors.back().role = Factor::Role::Whole;
  rule.inputs[2].assign(rule.inputs[1].begin(), rule.inputs[1].end() - 1);
  for (int d = tuple; d < ndim; ++d) rule.inputs[2].push_back(d);
  rule.outputs = {rule.inputs[0]};
  return rule;
}

/// For each tuple, updates have the data's dims that the tuple does not address.
static std::vector<LengthRelation> relate_scatter_nd(const OpView& op) {
  std::vector<LengthRelation> relations = relations_of_tuples(op);
  const Shape &data = op.type(0).shape, &indices = op.type(1).shape, &updates = op.type(2).shape;
  const size_t lead = indices.size() - 1, tuple = static_cast<size_t>(indices.back().bound);
  for (size_t d = 0; d < updates.size(); ++d)
    relations.push_back({"", length_of(updates[d]), length_of(d < lead ? indices[d] : data[d - lead + tuple])});
  return relations;
}

/// An index tuple addresses `inner` adjacent elements; a rank that lacks one of its indices skips it.
static void eval_scatter_nd(EvalContext& context) {
  Tensor result = context.in(0);
  const Tensor &indices = context.in(1), &updates = context.in(2);
  const int tuple = static_cast<int>(indices.dims.back());
  const std::string& reduction = text_of(context.op, "reduction");
  const Dims strides = strides_of(result.dims);
  std::vector<HeldIndices> held;
  for (int d = 0; d < tuple; ++d) held.emplace_back(context, 0, d);
  const int64_t inner = element_count(Dims(result.dims.begin() + tuple, result.dims.end()));
  for (int64_t t = 0; t < indices.size() / tuple; ++t) {
    int64_t to = 0;
    for (int d = 0; d < tuple && to >= 0; ++d) {
      const int64_t at = held[d].local(indices.integers[t * tuple + d]);
      to = at < 0 ? -1 : to + at * strides[d];
    }
    for (int64_t k = 0; k < inner && to >= 0; ++k) combine(result, to + k, updates, t * inner + k, reduction);
  }
  context.results[0] = std::move(result);
}

const OpDef kScatterND{.kind = OpKind::ScatterND,
                       .name = "ScatterND",
                       .onnx = {"ScatterND", 11},
                       .attrs = {choice("reduction", "none", "none add mul max min"),
                                 {.name = "inside", .type = AttrType::Int, .is_own = true},
                                 {.name = "onto_zeros", .type = AttrType::Int, .is_own = true}},
                       .inputs = {3, 3},
                       .category = Category::Index,
                       .infer = infer_scatter_nd,
                       .factors = factors_scatter_nd,
                       .relate = relate_scatter_nd,
                       .linear = {{2}},
                       .is_linear = adds_to_zeros,
                       .gradient = [](const BackwardStep& s) { return gradient_of_scatter(s, OpKind::GatherND); },
                       .eval = eval_scatter_nd,
                       .takes_strings = true};

}  // namespace weftc

// Gather, GatherElements, GatherND: elements addressed by data. Along a sliced dimension of the data, each rank looks
// up the indices that it holds and gives 0 for the others. The sum over the ranks is the value (L5). Indices outside
// the tensor read 0 too. An embedding with a sliced vocabulary works so:
//
//   w f32[8, d] sliced by rows over 2 ranks, index 5:   rank 0: 0 0 0 ..    rank 1: its row 1    sum = row 5 of w
#include <algorithm>
#include <utility>

#include "ir/looked_up_dims.h"
#include "ir/ops/gradient.h"
#include "ir/ops/index.h"

namespace weftc {

HeldIndices::HeldIndices(const EvalContext& context, int input, int dim) {
  const Tensor& x = context.in(input);
  local_ = x.dims[dim];
  global_ = context.global_input_dims.empty() ? local_ : context.global_input_dims[input][dim];
  const bool mapped = !context.held_inputs.empty() && !context.held_inputs[input][dim].empty();
  if (!mapped) return;
  for (int64_t i = 0; i < local_; ++i) places_.emplace(context.input_index(input, dim, i), i);
  is_mapped_ = true;
}

int64_t HeldIndices::local(int64_t index) const {
  if (index < 0) index += global_;
  if (!is_mapped_) return index >= 0 && index < local_ ? index : -1;
  const auto at = places_.find(index);
  return at == places_.end() ? -1 : at->second;
}

bool integer_operand(const OpView& op, int input) {
  if (is_integer(op.type(input).dtype)) return true;
  return op.fail("index-dtype", "indices have element type {}, an integer type is needed",
                 dtype_name(op.type(input).dtype));
}

/// Calls visit(index, data dimension that it addresses) for each constant index.
template <class Visit>
static void for_each_index(const OpView& op, Visit&& visit) {
  const std::optional<Tensor> indices = op.known(1);
  const LookedUpDims dims = *looked_up_dims(op.op(), op.type(0), op.type(1));
  for (int64_t i = 0; indices && i < indices->size(); ++i)
    visit(indices->int_at(i), static_cast<size_t>(dims.first + i % dims.count));
}

bool are_indices_inside(const OpView& op) {
  bool are_inside = true;
  for_each_index(op, [&](int64_t index, size_t dim) {
    const int64_t extent = op.type(0).shape[dim].bound, least = op.op().has("from_front") ? 0 : -extent;
    if (are_inside && (index < least || index >= extent))
      are_inside = op.fail("index-range", "index {} lies outside of a dimension of {}", index, extent);
  });
  return are_inside;
}

std::vector<LengthRelation> relations_of_tuples(const OpView& op) {
  std::vector<int64_t> least(op.type(0).shape.size(), 0);
  for_each_index(op, [&](int64_t index, size_t dim) { least[dim] = std::max({least[dim], index + 1, -index}); });
  std::vector<LengthRelation> relations;
  for (size_t d = 0; d < least.size(); ++d)
    if (least[d] > 0) relations.push_back({"", least[d], length_of(op.type(0).shape[d]), true});
  return relations;
}

/// ONNX Gather: the data's dims with `axis` replaced by the dims of the indices.
static bool infer_gather(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim());
  if (!axis || !integer_operand(op, 1)) return false;
  const Shape &data = op.type(0).shape, &indices = op.type(1).shape;
  TensorType type{op.type(0).dtype, Shape(data.begin(), data.begin() + *axis), {}};
  type.shape.insert(type.shape.end(), indices.begin(), indices.end());
  type.shape.insert(type.shape.end(), data.begin() + *axis + 1, data.end());
  results = {type};
  return are_indices_inside(op);
}

/// A slice of the looked-up dim gives a partial sum; strings have no sum.
static Factor::Role role_of_looked_up(const OpView& op) {
  return op.type(0).dtype == DType::String ? Factor::Role::Whole : Factor::Role::Reduce;
}

/// Factors: the dims of the data, then those of the indices. The looked-up dim is a reduce factor: a slice of it makes
/// the result a partial sum.
static FactorRule factors_gather(const OpView& op) {
  const int ndim = op.type(0).ndim(), indices = op.type(1).ndim();
  const int axis = static_cast<int>(from_front(int_of(op.op(), "axis"), ndim));
  FactorRule rule = pass_rule(op.type(0).shape);
  rule.factors[axis].role = role_of_looked_up(op);
  for (const Extent& extent : op.type(1).shape)
    rule.factors.push_back({extent.bound, Factor::Role::Pass, ReduceOp::Sum});
  rule.inputs.resize(2);
  std::vector<int>& out = rule.outputs.emplace_back();
  for (int d = 0; d < indices; ++d) rule.inputs[1].push_back(ndim + d);
  for (int d = 0; d < ndim; ++d) {
    rule.inputs[0].push_back(d);
    if (d == axis)
      out.insert(out.end(), rule.inputs[1].begin(), rule.inputs[1].end());
    else
      out.push_back(d);
  }
  return rule;
}

/// The data viewed as [outer, looked-up dim, inner]: rows of `inner` elements are copied.
static void eval_gather(EvalContext& context) {
  const Tensor &x = context.in(0), &indices = context.in(1);
  const int axis = static_cast<int>(from_front(int_of(context.op, "axis"), static_cast<int64_t>(x.dims.size())));
  const HeldIndices held(context, 0, axis);
  const int64_t inner = strides_of(x.dims)[axis], outer = element_count(Dims(x.dims.begin(), x.dims.begin() + axis));
  Tensor result(x.dtype, context.result_dims[0]);
  int64_t to = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < indices.size(); ++i) {
      const int64_t at = held.local(indices.integers[i]);
      for (int64_t k = 0; k < inner; ++k, ++to)
        if (at >= 0) result.copy_element(to, x, (o * x.dims[axis] + at) * inner + k);
    }
  context.results[0] = std::move(result);
}

static std::vector<LengthRelation> relate_gather(const OpView& op) {
  return relations_of_indices(op, from_front(int_of(op.op(), "axis"), op.type(0).ndim()));
}

/// Zeros in the shape of the data, with g added at these tuples.
static Term added_at(const Term& zeros, const Term& tuples, const Term& g, Builder& build) {
  return {build, build.op(OpKind::ScatterND, {zeros.value(), tuples.value(), g.value()},
                          {{"onto_zeros", int64_t{1}}, {"reduction", std::string("add")}})};
}

/// Moves the looked-up dim to the front, adds g, and moves the dim back.
Term added_along(Builder& build, const Dims& data, int64_t axis, const Term& indices, const Term& g) {
  const int64_t ndim = static_cast<int64_t>(data.size()), looked_up = static_cast<int64_t>(indices.dims().size());
  std::vector<int64_t> to_front = range_of(axis, axis + looked_up), back = range_of(1, axis + 1);
  Dims turned{data[static_cast<size_t>(axis)]}, tuples = indices.dims();
  tuples.push_back(1);
  back.push_back(0);
  for (int64_t d = 0; d < ndim; ++d) {
    if (d == axis) continue;
    turned.push_back(data[static_cast<size_t>(d)]);
    to_front.push_back(d < axis ? d : d - 1 + looked_up);
    if (d > axis) back.push_back(d);
  }
  const Term zeros = g.scalar(0).expand(turned);
  return added_at(zeros, indices.reshape(tuples), g.transpose(to_front), build).transpose(back);
}

/// The derivative of a Gather. A constant index is handled like a Slice.
static Derivatives gradient_of_gather(const BackwardStep& s) {
  const Dims data = s.in(0).dims();
  const int64_t axis = s.op.integer("axis");
  const std::optional<Tensor> known = s.view.known(1);
  if (!known || known->size() != 1) return {added_along(s.build, data, axis, s.in(1), s.g)};
  Dims row = data;
  row[static_cast<size_t>(axis)] = 1;
  std::vector<int64_t> pads(2 * data.size(), 0);
  pads[static_cast<size_t>(axis)] = from_front(known->int_at(0), data[static_cast<size_t>(axis)]);
  pads[data.size() + static_cast<size_t>(axis)] = data[static_cast<size_t>(axis)] - 1 - pads[static_cast<size_t>(axis)];
  return {Term(s.build, s.build.op(OpKind::Pad, {s.g.reshape(row).value()}, {{"pads", pads}}))};
}

const OpDef kGather{.kind = OpKind::Gather,
                    .name = "Gather",
                    .onnx = {"Gather"},
                    .attrs = {{"axis", AttrType::Int, 0},
                              {.name = "from_front", .type = AttrType::Int, .is_own = true},
                              {.name = "inside", .type = AttrType::Int, .is_own = true}},
                    .inputs = {2, 2},
                    .category = Category::Index,
                    .infer = infer_gather,
                    .canonicalize = canonical_axis,
                    .factors = factors_gather,
                    .relate = relate_gather,
                    .linear = {{0}},
                    .gradient = gradient_of_gather,
                    .eval = eval_gather,
                    .takes_strings = true};

/// GatherElements-11: indices have the data's number of dims, and the result their shape. Outside the axis an index
/// addresses its own position, so extents there must not exceed the data's.
static bool infer_gather_elements(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim());
  if (!axis || !integer_operand(op, 1)) return false;
  const Shape &data = op.type(0).shape, &indices = op.type(1).shape;
  bool fits = data.size() == indices.size();
  for (size_t d = 0; fits && d < data.size(); ++d)
    fits = static_cast<int64_t>(d) == *axis || indices[d].bound <= data[d].bound;
  if (!fits)
    return op.fail("gather-elements-dims", "indices of shape {} do not fit data of shape {} along axis {}",
                   dims_text(bounds(indices)), dims_text(bounds(data)), *axis);
  results = {{op.type(0).dtype, indices, {}}};
  return are_indices_inside(op);
}

/// Factors: the dims of the indices, then the looked-up dim of the data, then data dims longer than those of the
/// indices.
static FactorRule factors_gather_elements(const OpView& op) {
  const Shape &data = op.type(0).shape, &indices = op.type(1).shape;
  const int axis = static_cast<int>(from_front(int_of(op.op(), "axis"), op.type(0).ndim()));
  FactorRule rule = pass_rule(indices);
  rule.inputs.resize(2);
  for (int d = 0; d < static_cast<int>(indices.size()); ++d) {
    rule.inputs[1].push_back(d);
    if (d != axis && data[d].bound == indices[d].bound) {
      rule.inputs[0].push_back(d);
      continue;
    }
    if (d != axis) rule.factors[d].role = Factor::Role::Whole;
    rule.inputs[0].push_back(static_cast<int>(rule.factors.size()));
    rule.factors.push_back({data[d].bound, d == axis ? role_of_looked_up(op) : Factor::Role::Whole, ReduceOp::Sum});
  }
  rule.outputs = {rule.inputs[1]};
  return rule;
}

/// Outside the axis an index addresses its own position.
static std::vector<LengthRelation> relate_gather_elements(const OpView& op) {
  const int axis = static_cast<int>(from_front(int_of(op.op(), "axis"), op.type(0).ndim()));
  std::vector<LengthRelation> relations = relations_of_indices(op, axis);
  for (int d = 0; d < op.type(0).ndim(); ++d)
    if (d != axis) relations.push_back({"", length_of(op.type(1).shape[d]), length_of(op.type(0).shape[d]), true});
  return relations;
}

static void eval_gather_elements(EvalContext& context) {
  const Tensor &x = context.in(0), &indices = context.in(1);
  const int axis = static_cast<int>(from_front(int_of(context.op, "axis"), static_cast<int64_t>(x.dims.size())));
  const HeldIndices held(context, 0, axis);
  Dims strides = strides_of(x.dims);
  const int64_t stride = strides.empty() ? 0 : std::exchange(strides[axis], 0);
  Tensor result(x.dtype, context.result_dims[0]);
  for (Index at(indices.dims); at.more(); at.next()) {
    const int64_t from = held.local(indices.integers[at.linear()]);
    if (from >= 0) result.copy_element(at.linear(), x, at.dot(strides) + from * stride);
  }
  context.results[0] = std::move(result);
}

/// With one element along the axis, indices are compared with it, so nothing is scattered.
static Derivatives gradient_of_gather_elements(const BackwardStep& s) {
  const Dims data = s.in(0).dims(), indices = s.in(1).dims();
  const int64_t axis = s.op.integer("axis"), count = data[static_cast<size_t>(axis)];
  Dims row = data;
  row[static_cast<size_t>(axis)] = 1;
  if (indices != row)
    return {Term(s.build, s.build.op(OpKind::ScatterElements, {s.zeros_like(0).value(), s.op.inputs[1], s.g.value()},
                                     {{"axis", axis}, {"onto_zeros", int64_t{1}}, {"reduction", std::string("add")}}))};
  const Term index = s.in(1), from_front = (index < 0).choose(index + static_cast<double>(count), index);
  const Term place = positions(s.build, index.dtype(), count, static_cast<int>(axis), static_cast<int>(data.size()));
  return {(place == from_front).choose(s.g, s.zero())};
}

const OpDef kGatherElements{.kind = OpKind::GatherElements,
                            .name = "GatherElements",
                            .onnx = {"GatherElements", 11},
                            .attrs = {{"axis", AttrType::Int, 0},
                                      {.name = "from_front", .type = AttrType::Int, .is_own = true},
                                      {.name = "inside", .type = AttrType::Int, .is_own = true}},
                            .inputs = {2, 2},
                            .category = Category::Index,
                            .infer = infer_gather_elements,
                            .canonicalize = canonical_axis,
                            .factors = factors_gather_elements,
                            .relate = relate_gather_elements,
                            .linear = {{0}},
                            .gradient = gradient_of_gather_elements,
                            .eval = eval_gather_elements,
                            .takes_strings = true};

/// Leading dims that data and indices share, and the number of data dims that one index tuple addresses.
static std::pair<int, int> tuple_dims(const Op& op, const Dims& indices) {
  return {static_cast<int>(int_of(op, "batch_dims")), static_cast<int>(indices.back())};
}

/// GatherND-12: the indices' dims without the tuple, then the data's dims that the tuple does not address.
static bool infer_gather_nd(const OpView& op, std::vector<TensorType>& results) {
  if (!integer_operand(op, 1) || !has_ndim(op, 1, 1) || !has_ndim(op, 0, 1)) return false;
  const Shape &data = op.type(0).shape, &indices = op.type(1).shape;
  const auto [batch, tuple] = tuple_dims(op.op(), bounds(indices));
  if (batch < 0 || batch >= static_cast<int>(indices.size()) || tuple < 1 ||
      batch + tuple > static_cast<int>(data.size()))
    return op.fail("gather-nd-dims", "indices of shape {} with {} batch dimensions do not address data of shape {}",
                   dims_text(bounds(indices)), batch, dims_text(bounds(data)));
  TensorType type{op.type(0).dtype, Shape(indices.begin(), indices.end() - 1), {}};
  type.shape.insert(type.shape.end(), data.begin() + batch + tuple, data.end());
  results = {type};
  return are_indices_inside(op);
}

/// Factors: the dims of the indices (batch dims are shared with the data, the tuple is whole), then the data's other
/// dims. Dims that the tuple addresses are whole; later ones pass.
static FactorRule factors_gather_nd(const OpView& op) {
  const Shape &data = op.type(0).shape, &indices = op.type(1).shape;
  const auto [batch, tuple] = tuple_dims(op.op(), bounds(indices));
  FactorRule rule = pass_rule(indices);
  rule.factors.back().role = Factor::Role::Whole;
  rule.inputs.resize(2);
  std::vector<int>& out = rule.outputs.emplace_back();
  for (int d = 0; d < static_cast<int>(indices.size()); ++d) rule.inputs[1].push_back(d);
  out.assign(rule.inputs[1].begin(), rule.inputs[1].end() - 1);
  for (int d = 0; d < static_cast<int>(data.size()); ++d) {
    const bool shared = d < batch;
    const int factor = shared ? d : static_cast<int>(rule.factors.size());
    rule.inputs[0].push_back(factor);
    if (shared) continue;
    const bool addressed = d < batch + tuple;
    rule.factors.push_back({data[d].bound, addressed ? Factor::Role::Whole : Factor::Role::Pass, ReduceOp::Sum});
    if (!addressed) out.push_back(factor);
  }
  return rule;
}

/// Batch dims are equal in both operands.
static std::vector<LengthRelation> relate_gather_nd(const OpView& op) {
  std::vector<LengthRelation> relations = relations_of_tuples(op);
  for (size_t d = 0; d < static_cast<size_t>(int_of(op.op(), "batch_dims")); ++d)
    relations.push_back({"", length_of(op.type(1).shape[d]), length_of(op.type(0).shape[d])});
  return relations;
}

static void eval_gather_nd(EvalContext& context) {
  const Tensor &x = context.in(0), &indices = context.in(1);
  const auto [batch, tuple] = tuple_dims(context.op, indices.dims);
  const Dims strides = strides_of(x.dims);
  const int64_t tuples = indices.size() / tuple;
  const int64_t batches = element_count(Dims(x.dims.begin(), x.dims.begin() + batch));
  const int64_t inner = element_count(Dims(x.dims.begin() + batch + tuple, x.dims.end()));
  const int64_t batch_stride = x.size() / std::max<int64_t>(batches, 1);
  Tensor result(x.dtype, context.result_dims[0]);
  for (int64_t t = 0; t < tuples; ++t) {
    int64_t from = t / (tuples / std::max<int64_t>(batches, 1)) * batch_stride;
    bool inside = true;
    for (int i = 0; i < tuple; ++i) {
      const int64_t extent = x.dims[batch + i], index = from_front(indices.integers[t * tuple + i], extent);
      inside = inside && index >= 0 && index < extent;
      from += index * strides[batch + i];
    }
    for (int64_t k = 0; k < inner && inside; ++k) result.copy_element(t * inner + k, x, from + k);
  }
  context.results[0] = std::move(result);
}

/// A tuple that is prefixed with its position in the batch dims addresses all of the data.
static Derivatives gradient_of_gather_nd(const BackwardStep& s) {
  const Dims dims = s.in(1).dims();
  const int ndim = static_cast<int>(dims.size());
  Dims column = dims;
  column.back() = 1;
  std::vector<ValueId> parts;
  for (int d = 0; d < tuple_dims(s.op, dims).first; ++d)
    parts.push_back(positions(s.build, s.in(1).dtype(), dims[static_cast<size_t>(d)], d, ndim).expand(column).value());
  parts.push_back(s.op.inputs[1]);
  const Term tuples =
      parts.size() == 1 ? s.in(1)
                        : Term(s.build, s.build.op(OpKind::Concat, parts, {{"axis", static_cast<int64_t>(ndim - 1)}}));
  return {added_at(s.zeros_like(0), tuples, s.g, s.build)};
}

const OpDef kGatherND{
    .kind = OpKind::GatherND,
    .name = "GatherND",
    .onnx = {"GatherND", 11},
    .attrs = {{"batch_dims", AttrType::Int, 0}, {.name = "inside", .type = AttrType::Int, .is_own = true}},
    .inputs = {2, 2},
    .category = Category::Index,
    .infer = infer_gather_nd,
    .factors = factors_gather_nd,
    .relate = relate_gather_nd,
    .linear = {{0}},
    .gradient = gradient_of_gather_nd,
    .eval = eval_gather_nd,
    .takes_strings = true};

}  // namespace weftc

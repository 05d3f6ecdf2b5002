// Ops that move elements unchanged: Transpose, Expand, Concat, Tile. Kernels resolve them in the index of a load
// (backend/element_view.cpp), and slices over ranks pass them digit by digit (L5), so that most cost nothing.
//
//   Transpose(x f32[2, 3], perm 1 0)     ->  f32[3, 2]: result dim i is operand dim perm[i]
//   Expand(x f32[3, 1], [2, 1, 4])       ->  f32[2, 3, 4]: broadcasting, also of the requested shape (ONNX Expand-13)
#include "ir/ops/view.h"

#include <algorithm>

#include "ir/base/check.h"
#include "ir/base/checked.h"
#include "ir/ops/gradient.h"

namespace weftc {

/// The permutation; without the attribute the dims are reversed (ONNX Transpose-21).
static std::optional<std::vector<int64_t>> permutation(const OpView& op) {
  const int ndim = op.type(0).ndim();
  if (!op.op().has("perm")) {
    std::vector<int64_t> reversed = range_of(0, ndim);
    std::reverse(reversed.begin(), reversed.end());
    return reversed;
  }
  std::optional<std::vector<int64_t>> perm = op.axes("perm", ndim);
  if (perm && static_cast<int>(perm->size()) != ndim)
    return op.fail("transpose-perm", "'perm' has {} entries for {} dimensions", perm->size(), ndim), std::nullopt;
  return perm;
}

static bool infer_transpose(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<std::vector<int64_t>> perm = permutation(op);
  if (!perm) return false;
  TensorType type{op.type(0).dtype, {}, {}};
  for (int64_t from : *perm) type.shape.push_back(op.type(0).shape[from]);
  results = {type};
  return true;
}

/// Reads the operand by strides in the order of the result's dims.
static void eval_transpose(EvalContext& context) {
  const Tensor& x = context.in(0);
  const std::vector<int64_t>& perm = context.op.ints("perm");
  const Dims strides = strides_of(x.dims);
  Dims permuted;
  for (int64_t from : perm) permuted.push_back(strides[from]);
  Tensor result(x.dtype, context.result_dims[0]);
  for (Index at(result.dims); at.more(); at.next()) result.copy_element(at.linear(), x, at.dot(permuted));
  context.results[0] = std::move(result);
}

static Derivatives gradient_of_transpose(const BackwardStep& s) {
  const std::vector<int64_t>& perm = s.op.ints("perm");
  std::vector<int64_t> back(perm.size());
  for (size_t d = 0; d < perm.size(); ++d) back[static_cast<size_t>(perm[d])] = static_cast<int64_t>(d);
  return {s.g.transpose(back)};
}

const OpDef kTranspose{.kind = OpKind::Transpose,
                       .name = "Transpose",
                       .onnx = {"Transpose"},
                       .attrs = {{"perm", AttrType::Ints}},
                       .category = Category::View,
                       .infer = infer_transpose,
                       .canonicalize = [](Op& op, const OpView& view) { op.set("perm", *permutation(view)); },
                       .linear = {{0}},
                       .gradient = gradient_of_transpose,
                       .eval = eval_transpose,
                       .takes_strings = true};

/// The requested extent for a dimension of the operand. Extent 1 keeps the operand's. A run-time extent of at most 1
/// keeps all elements or none.
static Extent asked_of(const OpView& op, const Extent& from, const Extent& asked) {
  const bool names_bounds = op.op().has("shape");
  if (names_bounds && from.bound == asked.bound) return from;
  const bool is_one_or_none = asked.is_run_time() && asked.bound == 1 && from.bound != 1;
  return is_one_or_none ? op.extent(length_of(from) * length_of(asked)) : asked;
}

/// The requested shape broadcasts both ways: an extent 1 in it keeps the operand's.
static std::optional<Shape> expanded(const OpView& op) {
  Shape from = op.type(0).shape, asked;
  const std::optional<std::vector<Length>> lengths = op.lengths_of("shape", 1);
  // A type that the result already has is more precise than its bounds.
  const bool is_typed = op.op().has("shape") && !op.op().outputs.empty();
  if (is_typed && op.result_type(0).dims() == ints_of(op.op(), "shape")) return op.result_type(0).shape;
  for (const Length& length : *lengths) asked.push_back(op.extent(length));
  for (size_t d = 1; d <= std::min(from.size(), asked.size()); ++d) {
    Extent& own = from[from.size() - d];
    Extent& other = asked[asked.size() - d];
    const bool is_one_or_none = other.is_run_time() && other.bound == 1;
    other = asked_of(op, own, other);
    if (is_one_or_none) own = other;
  }
  std::optional<Shape> made = broadcast({asked, from});
  // The result has the requested lengths; the op's relations say that the operand has them too.
  const size_t before = made ? made->size() - asked.size() : 0;
  for (size_t d = 0; made && d < asked.size(); ++d)
    if (!is_one(asked[d])) (*made)[before + d].length = asked[d].length;
  return made;
}

/// A dimension that is not repeated has the operand's length or none of its elements.
static std::vector<LengthRelation> relate_expand(const OpView& op) {
  const Shape &from = op.type(0).shape, &to = op.result_type(0).shape;
  std::vector<LengthRelation> relations;
  for (size_t d = 1; d <= from.size(); ++d) {
    const Extent &own = from[from.size() - d], &made = to[to.size() - d];
    if (!is_one(own) && !exact_quotient(length_of(made), length_of(own)))
      relations.push_back({"", length_of(own), length_of(made)});
  }
  return relations;
}

static bool infer_expand(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<std::vector<Length>> asked = op.lengths_of("shape", 1);
  if (!asked) return is_given(op, 1, "shape", "shape");
  const std::optional<Shape> shape = expanded(op);
  const auto is_negative = [](const Length& length) { return length.high() < 0; };
  if (!shape || std::any_of(asked->begin(), asked->end(), is_negative))
    return op.fail("expand-shape", "shape {} cannot be expanded to {}", shape_text(op.type(0).shape), text_of(*asked));
  results = {{op.type(0).dtype, *shape, {}}};
  return true;
}

static void eval_expand(EvalContext& context) {
  const Tensor& x = context.in(0);
  const Dims strides = broadcast_strides(x.dims, static_cast<int>(context.result_dims[0].size()));
  Tensor result(x.dtype, context.result_dims[0]);
  for (Index at(result.dims); at.more(); at.next()) result.copy_element(at.linear(), x, at.dot(strides));
  context.results[0] = std::move(result);
}

/// The shape attribute becomes the result's shape.
static void canonical_expand(Op& op, const OpView& view) { op.set("shape", bounds(*expanded(view))); }

const OpDef kExpand{.kind = OpKind::Expand,
                    .name = "Expand",
                    .onnx = {"Expand", 8},
                    .attrs = {{"shape", AttrType::Ints}},
                    .inputs = {1, 2},
                    .category = Category::View,
                    .constant_operands = {{.input = 1, .attr = "shape", .type = AttrType::Ints, .is_canonical = true}},
                    .infer = infer_expand,
                    .canonicalize = canonical_expand,
                    .relate = relate_expand,
                    .linear = {{0}},
                    .gradient = WEFT_GRADIENT({g}),
                    .eval = eval_expand,
                    .takes_strings = true};

/// Merges a dimension of two operands of a Concat, outside its axis; false if they differ.
static bool agree(Extent& into, const Extent& from) {
  const std::optional<Extent> both = one_extent(into, from);
  if (!both) return false;
  if (both->is_run_time() || into.bound != from.bound)
    into = *both;
  else if (!into.is_run_time())
    into = from;
  return true;
}

/// Extents along the axis add up, all others agree. Run-time lengths of other dims are kept.
static bool infer_concat(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim());
  if (!axis || !same_dtypes(op)) return false;
  TensorType type{op.type(0).dtype, op.type(0).shape, {}};
  Length sum;
  for (int i = 0; i < op.inputs(); ++i) {
    const Shape& shape = op.type(i).shape;
    bool fits = shape.size() == type.shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d)
      if (static_cast<int64_t>(d) == *axis)
        sum = sum + length_of(shape[d]);
      else
        fits = agree(type.shape[d], shape[d]);
    if (!fits)
      return op.fail("concat-dims", "shapes {} and {} differ outside axis {}", shape_text(op.type(0).shape),
                     shape_text(op.type(i).shape), *axis);
  }
  type.shape[static_cast<size_t>(*axis)] = op.extent(sum);
  results = {type};
  return true;
}

/// Outside the axis all operands have the first one's lengths.
static std::vector<LengthRelation> relate_concat(const OpView& op) {
  std::vector<LengthRelation> relations;
  const auto axis = static_cast<size_t>(from_front(int_of(op.op(), "axis"), op.type(0).ndim()));
  for (int i = 1; i < op.inputs(); ++i)
    for (size_t d = 0; d < op.type(0).shape.size(); ++d)
      if (d != axis) relations.push_back({"", length_of(op.type(0).shape[d]), length_of(op.type(i).shape[d])});
  return relations;
}

/// Writes each operand after the previous one along the axis.
static void eval_concat(EvalContext& context) {
  const auto axis =
      static_cast<size_t>(from_front(int_of(context.op, "axis"), static_cast<int64_t>(context.result_dims[0].size())));
  Tensor result(context.result_dtypes[0], context.result_dims[0]);
  const Dims strides = strides_of(result.dims);
  int64_t offset = 0, length = 0;
  for (const Tensor* x : context.inputs) length += x->dims[axis];
  WEFT_CHECK(length == result.dims[axis], "operands of " + std::to_string(length) + " elements make a result of " +
                                              std::to_string(result.dims[axis]));
  for (const Tensor* x : context.inputs) {
    for (Index at(x->dims); at.more(); at.next()) result.copy_element(at.dot(strides) + offset, *x, at.linear());
    offset += x->dims[axis] * strides[axis];
  }
  context.results[0] = std::move(result);
}

/// A Concat of one operand is that operand.
static std::vector<ValueId> only_operand(Builder&, const OpView& op) { return {op.op().inputs[0]}; }

/// Each operand gets its rows.
static Derivatives gradient_of_concat(const BackwardStep& s) {
  const int64_t axis = s.op.integer("axis");
  Derivatives parts;
  int64_t first = 0;
  for (size_t i = 0; i < s.op.inputs.size(); ++i) {
    const int64_t count = s.in(i).dims()[static_cast<size_t>(axis)];
    parts.push_back(s.g.slice(axis, first, first + count));
    first += count;
  }
  return parts;
}

/// Along a bounded dimension the lengths add up.
const OpDef kConcat{.kind = OpKind::Concat,
                    .name = "Concat",
                    .onnx = {"Concat", 4},
                    .attrs = {{"axis", AttrType::Int, {}, true}},
                    .inputs = {1, -1},
                    .category = Category::View,
                    .infer = infer_concat,
                    .canonicalize = canonical_axis,
                    .relate = relate_concat,
                    .linear = {{-1}},
                    .gradient = gradient_of_concat,
                    .eval = eval_concat,
                    .decompose = only_operand,
                    .is_primitive = [](const OpView& op) { return op.inputs() > 1; },
                    .takes_strings = true};

/// Tile-13: a repeat for each dimension.
static bool infer_tile(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<std::vector<Length>> repeats_or_none = op.lengths_of("repeats", 1);
  if (!repeats_or_none) return is_given(op, 1, "repeats", "list of repeats");
  const std::vector<Length>& repeats = *repeats_or_none;
  TensorType type{op.type(0).dtype, op.type(0).shape, {}};
  if (repeats.size() != type.shape.size())
    return op.fail("tile-repeats", "{} repeats for {} dimensions", repeats.size(), type.shape.size());
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (repeats[d].low() < 0) return op.fail("tile-negative", "repeat {} is negative", repeats[d].text());
    if (repeats[d] == 1) continue;
    const std::optional<int64_t> bound = checked_product(type.shape[d].bound, repeats[d].high());
    if (!bound) return op.fail("tile-size", "dimension {} repeated {} times is too long", d, repeats[d].text());
    type.shape[d] = op.extent(length_of(type.shape[d]) * repeats[d]);
    type.shape[d].bound = *bound;
  }
  results = {type};
  return true;
}

/// Stores the maximum number of repeats.
static void canonical_tile(Op& op, const OpView& view) {
  std::vector<int64_t> repeats;
  const std::optional<std::vector<Length>> lengths = view.lengths_of("repeats", 1);
  for (const Length& each : *lengths) repeats.push_back(each.high());
  op.set("repeats", repeats);
}

/// Indices wrap around at the operand's extents.
static void eval_tile(EvalContext& context) {
  const Tensor& x = context.in(0);
  const Dims strides = strides_of(x.dims);
  Tensor result(x.dtype, context.result_dims[0]);
  for (Index at(result.dims); at.more(); at.next()) {
    int64_t from = 0;
    for (int d = 0; d < static_cast<int>(x.dims.size()); ++d) from += at[d] % x.dims[d] * strides[d];
    result.copy_element(at.linear(), x, from);
  }
  context.results[0] = std::move(result);
}

/// True if the operand is repeated and the source index is known for all lengths.
static bool repeats_numbers(const OpView& op) {
  const Shape &from = op.type(0).shape, &to = op.result_type(0).shape;
  for (size_t d = 0; d < from.size(); ++d)
    if (from[d].is_run_time() && !(from[d] == to[d])) return false;
  return true;
}

/// The repeat count becomes a dimension before the repeated one: f32[n] is f32[1, n], f32[2, n] and f32[n * 2].
static std::vector<ValueId> decompose_tile(Builder& build, const OpView& op) {
  const Shape from = op.type(0).shape, to = op.result_type(0).shape;
  const std::vector<int64_t>& most = op.op().ints("repeats");
  Shape apart, repeated;
  for (size_t d = 0; d < from.size(); ++d) {
    const Length times = exact_quotient(length_of(to[d]), length_of(from[d])).value_or(1);
    apart.insert(apart.end(), {Extent{1}, from[d]});
    repeated.insert(repeated.end(), {op.extent(times), from[d]});
    repeated[2 * d].bound = most[d];
  }
  const ValueId ones = build.reshape_to(op.op().inputs[0], apart);
  const ValueId copies = build.op(OpKind::Expand, {ones}, {{"shape", bounds(repeated)}});
  return {build.reshape_to(build.with_lengths(copies, repeated), to)};
}

/// An element's derivative is the sum over its copies, which are along dimensions of their own.
static Derivatives gradient_of_tile(const BackwardStep& s) {
  const Dims from = s.in(0).dims();
  const std::vector<int64_t>& repeats = s.op.ints("repeats");
  Dims apart;
  std::vector<int64_t> copies;
  for (size_t d = 0; d < from.size(); ++d) {
    copies.push_back(static_cast<int64_t>(apart.size()));
    apart.insert(apart.end(), {repeats[d], from[d]});
  }
  return {s.g.reshape(apart).reduce(OpKind::ReduceSum, copies, false)};
}

const OpDef kTile{.kind = OpKind::Tile,
                  .name = "Tile",
                  .onnx = {"Tile", 6},
                  .attrs = {{"repeats", AttrType::Ints}},
                  .inputs = {1, 2},
                  .category = Category::View,
                  .constant_operands = {{1, "repeats", AttrType::Ints}},
                  .infer = infer_tile,
                  .canonicalize = canonical_tile,
                  .linear = {{0}},
                  .gradient = gradient_of_tile,
                  .eval = eval_tile,
                  .decompose = decompose_tile,
                  .is_primitive = repeats_numbers,
                  .takes_strings = true};

}  // namespace weftc

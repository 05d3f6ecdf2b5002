// Views that are special cases of Reshape, Slice and Transpose. They are evaluated too, because shape chains use them
// before the decompose pass has replaced them.
//
//   Squeeze, Unsqueeze, Flatten  ->  Reshape               Split(x)  ->  a Slice for each part
//   DepthToSpace, SpaceToDepth   ->  Reshape, Transpose, Reshape
#include <algorithm>

#include "ir/base/checked.h"
#include "ir/ops/relations.h"
#include "ir/ops/view.h"

namespace weftc {

/// The operand's elements in the same order.
static void copy_linear(EvalContext& context) {
  Tensor result = context.in(0);
  result.dims = context.result_dims[0];
  context.results[0] = std::move(result);
}

/// A record whose op is a Reshape to the inferred result.
static OpDef reshape_like(OpKind kind, const char* name, InferFn infer) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name};
  def.infer = infer;
  def.linear = {{0}};
  def.eval = copy_linear;
  def.decompose = [](Builder& build, const OpView& op) -> std::vector<ValueId> {
    return {build.reshape_to(op.op().inputs[0], op.result_type(0).shape)};
  };
  return def;
}

/// True if a Squeeze removes this dimension: a named one, or one with at most one element.
static bool is_squeezed(const Op& op, const Shape& from, size_t d) {
  const std::vector<int64_t> axes = ints_of(op, "axes");
  const auto ndim = static_cast<int64_t>(from.size());
  return axes.empty() ? from[d].bound == 1 : std::ranges::any_of(axes, [&](int64_t axis) {
    return from_front(axis, ndim) == static_cast<int64_t>(d);
  });
}

/// Squeeze-13: removes the named dimensions, which must have extent 1, or all such dimensions if none is named. An
/// empty list names none, as in ONNX Runtime.
static bool infer_squeeze(const OpView& op, std::vector<TensorType>& results) {
  if (!is_known(op, 1, "axes", "list of axes")) return false;
  const Shape& from = op.type(0).shape;
  if (!op.axes("axes", static_cast<int>(from.size()))) return false;
  Shape shape;
  for (size_t d = 0; d < from.size(); ++d) {
    const bool is_left_out = is_squeezed(op.op(), from, d);
    if (is_left_out && from[d].bound != 1)
      return op.fail("squeeze-extent", "dimension {} has extent {}, not 1", d, from[d].bound);
    if (!is_left_out) shape.push_back(from[d]);
  }
  results = {{op.type(0).dtype, shape, {}}};
  return true;
}

/// A removed dimension has one element. If none is named, one of run-time length stays, so its length must not be 1. As
/// a relation this is 2 * min(1, n) <= n.
static std::vector<LengthRelation> relate_squeeze(const OpView& op) {
  const bool names_none = ints_of(op.op(), "axes").empty();
  const Shape& from = op.type(0).shape;
  std::vector<LengthRelation> relations;
  for (size_t d = 0; d < from.size(); ++d) {
    const Length length = length_of(from[d]);
    if (is_squeezed(op.op(), from, d))
      relations.push_back({"", length, 1});
    else if (names_none && from[d].is_run_time())
      relations.push_back({"", minimum(1, length) * 2, length, true});
  }
  return relations;
}

/// Unsqueeze-13: axes count dimensions of the result.
static bool infer_unsqueeze(const OpView& op, std::vector<TensorType>& results) {
  if (!is_given(op, 1, "axes", "list of axes")) return false;
  TensorType type{op.type(0).dtype, op.type(0).shape, {}};
  const size_t ndim = type.shape.size() + ints_of(op.op(), "axes").size();
  std::optional<std::vector<int64_t>> axes = op.axes("axes", static_cast<int>(ndim));
  if (!axes) return false;
  std::sort(axes->begin(), axes->end());
  for (int64_t axis : *axes) type.shape.insert(type.shape.begin() + axis, Extent{1});
  results = {type};
  return true;
}

/// Joins neighbouring dimensions.
static Extent joined(const OpView& op, std::span<const Extent> dims) {
  Length length = 1;
  int64_t bound = 1;
  for (const Extent& each : dims) {
    length = length * length_of(each), bound *= each.bound;
  }
  return length.is_constant() ? op.extent(length) : run_time_extent(bound, length);
}

/// Flatten-13: a matrix of the dimensions left of `axis` and the others.
static bool infer_flatten(const OpView& op, std::vector<TensorType>& results) {
  const std::span<const Extent> from = op.type(0).shape;
  const std::optional<int64_t> axis = op.axis("axis", static_cast<int>(from.size()), true);
  if (!axis) return false;
  const auto left = static_cast<size_t>(*axis);
  results = {{op.type(0).dtype, {joined(op, from.first(left)), joined(op, from.subspan(left))}, {}}};
  return true;
}

/// Squeeze and Unsqueeze: `axes` is an attribute up to opset 12, then an operand that must be known.
static OpDef axes_view(OpKind kind, const char* name, InferFn infer, RelateFn relate = nullptr) {
  OpDef def = reshape_like(kind, name, infer);
  def.relate = relate;
  def.attrs = {{"axes", AttrType::Ints}};
  def.inputs = {1, 2};
  def.constant_operands = {{1, "axes", AttrType::Ints}};
  def.takes_strings = true;
  return def;
}

static OpDef flatten() {
  OpDef def = reshape_like(OpKind::Flatten, "Flatten", infer_flatten);
  def.attrs = {{"axis", AttrType::Int, 1}};
  def.takes_strings = true;
  return def;
}

const OpDef kSqueeze = axes_view(OpKind::Squeeze, "Squeeze", infer_squeeze, relate_squeeze);
const OpDef kUnsqueeze = axes_view(OpKind::Unsqueeze, "Unsqueeze", infer_unsqueeze);
const OpDef kFlatten = flatten();

/// Attribute of a Split whose parts have run-time lengths: the texts of these.
constexpr const char* kPartLengths = "part_lengths";

/// True if every part has the same extent: neither parts nor num_outputs are given. With num_outputs the last part may
/// be smaller (Split-18; older opsets require equal parts).
static bool has_equal_parts(const OpView& op) {
  return !op.op().has(kPartLengths) && !op.op().has("split") && !op.has(1) && !op.op().has("num_outputs");
}

/// Extents of the parts along the axis; nothing after reporting. If they are not given, the last may be smaller.
static std::optional<std::vector<int64_t>> parts(const OpView& op, int64_t extent) {
  std::vector<int64_t> parts = ints_of(op.op(), "split");
  const auto count = static_cast<int64_t>(op.op().outputs.size());
  if (has_equal_parts(op) && extent % count != 0)
    return op.fail("split-parts", "{} parts of one extent do not make {}", count, extent), std::nullopt;
  if (parts.empty()) {
    const int64_t each = (extent + count - 1) / count;
    for (int64_t i = 0; i < count; ++i) parts.push_back(std::clamp<int64_t>(extent - i * each, 0, each));
  }
  int64_t sum = 0;
  bool legal = static_cast<int64_t>(parts.size()) == count;
  for (int64_t part : parts) {
    sum += part;
    legal = legal && part >= 0;
  }
  if (!legal || sum != extent)
    return op.fail("split-parts", "parts {} do not make {} outputs of extent {}", dims_text(parts), count, extent),
           std::nullopt;
  return parts;
}

/// The same if the dimension or its parts are run-time lengths: the model's lengths, which canonicalize stored, or
/// equal ones. Nothing after reporting.
static std::optional<std::vector<Length>> part_lengths(const OpView& op, const Length& extent) {
  const auto count = static_cast<int64_t>(op.op().outputs.size());
  std::vector<Length> lengths;
  if (op.op().has(kPartLengths)) {
    for (const std::string& text : op.op().texts(kPartLengths))
      lengths.push_back(*parse_length(text, op.module().lengths));
    return lengths;
  }
  if (const auto given = op.lengths_of("split", 1)) {
    lengths = *given;
  } else {
    const std::optional<Length> each = floor_quotient(extent + (count - 1), count);
    for (int64_t i = 0; each && i < count; ++i)
      lengths.push_back(i == 0 ? *each : minimum(maximum(extent - *each * i, 0), *each));
  }
  if (static_cast<int64_t>(lengths.size()) != count ||
      std::ranges::any_of(lengths, [](const Length& length) { return length.high() < 0; }))
    return op.fail("split-parts", "parts {} do not make {} outputs of a dimension of length {}", text_of(lengths),
                   count, extent.text()),
           std::nullopt;
  return lengths;
}

/// True if the Split depends on a length that only a run knows.
static bool is_split_at_run_time(const OpView& op) {
  const auto axis = static_cast<size_t>(from_front(int_of(op.op(), "axis"), op.type(0).ndim()));
  return op.op().has(kPartLengths) || op.has(1) || op.type(0).shape[axis].is_run_time();
}

/// Split-18: extents from `split`, else equal parts for num_outputs.
static bool infer_split(const OpView& op, std::vector<TensorType>& results) {
  const bool has_lengths = op.op().has(kPartLengths) || op.lengths_of("split", 1);
  if (!has_lengths && !is_known(op, 1, "split", "list of parts")) return false;
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim());
  if (!axis) return false;
  const auto outputs = static_cast<int64_t>(op.op().outputs.size());
  if (const int64_t count = op.op().integer_or("num_outputs", outputs); count != outputs)
    return op.fail("split-num-outputs", "'num_outputs' is {}, but the node has {} outputs", count, outputs);
  TensorType type{op.type(0).dtype, op.type(0).shape, {}};
  Extent& extent = type.shape[static_cast<size_t>(*axis)];
  if (is_split_at_run_time(op)) {
    const std::optional<std::vector<Length>> lengths = part_lengths(op, length_of(extent));
    for (const Length& length : lengths.value_or(std::vector<Length>())) {
      extent = op.extent(maximum(length, 0));
      results.push_back(type);
    }
    return lengths.has_value();
  }
  const std::optional<std::vector<int64_t>> extents = parts(op, extent.bound);
  if (!extents) return false;
  for (int64_t each : *extents) {
    extent = {each, {}};
    results.push_back(type);
  }
  return true;
}

/// Parts that the model gives, or that must be equal, add up to the dimension. None is negative.
static std::vector<LengthRelation> relate_split(const OpView& op) {
  if (!op.op().has(kPartLengths) && !has_equal_parts(op)) return {};
  const Length extent = length_of(op.type(0).shape[static_cast<size_t>(op.op().integer("axis"))]);
  const std::optional<std::vector<Length>> lengths = part_lengths(op, extent);
  if (has_equal_parts(op)) return {{"", lengths->front() * static_cast<int64_t>(lengths->size()), extent}};
  std::vector<LengthRelation> relations;
  Length sum;
  for (const Length& length : *lengths) {
    relations.push_back(at_most(0, length));
    sum = sum + length;
  }
  relations.push_back({"", sum, extent});
  return relations;
}

/// Stores the parts, so that later passes need not count outputs.
static void canonical_split(Op& op, const OpView& view) {
  canonical_axis(op, view);
  const Extent& extent = view.type(0).shape[static_cast<size_t>(op.integer("axis"))];
  if (!is_split_at_run_time(view)) {
    op.set("split", *parts(view, extent.bound));
    op.remove("num_outputs");
    return;
  }
  if (!view.lengths_of("split", 1)) return;
  std::vector<std::string> texts;
  const std::optional<std::vector<Length>> lengths = part_lengths(view, length_of(extent));
  for (const Length& length : *lengths) texts.push_back(length.text());
  op.set(kPartLengths, texts);
  op.remove("split");
}

/// Splits at positions that a run computes.
static std::vector<ValueId> split_at_run_time(Builder& build, const OpView& op) {
  const ValueId x = op.op().inputs[0];
  const auto axis = static_cast<size_t>(op.op().integer("axis"));
  const std::optional<std::vector<Length>> lengths = part_lengths(op, length_of(op.type(0).shape[axis]));
  std::vector<Shape> shapes;
  for (size_t i = 0; i < lengths->size(); ++i) shapes.push_back(op.result_type(static_cast<int>(i)).shape);
  std::vector<ValueId> results;
  Length start;
  for (size_t i = 0; i < shapes.size(); start = start + (*lengths)[i++]) {
    results.push_back(elements_from(build, x, static_cast<int64_t>(axis), shapes[i][axis], start));
  }
  return results;
}

/// A Slice for each result.
static std::vector<ValueId> decompose_split(Builder& build, const OpView& op) {
  if (is_split_at_run_time(op)) return split_at_run_time(build, op);
  const Dims dims = op.dims(0);
  const int64_t axis = op.op().integer("axis");
  const ValueId x = op.op().inputs[0];
  const size_t count = op.op().outputs.size();
  const std::vector<int64_t>& parts = op.op().ints("split");
  std::vector<ValueId> results;
  int64_t at = 0;
  for (size_t i = 0; i < count; at += parts[i++])
    results.push_back(build.op(OpKind::Slice, {x}, slice_of(dims, axis, at, at + parts[i])));
  return results;
}

/// Copies the parts, which follow each other along the axis.
static void eval_split(EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t axis = context.op.integer("axis");
  const Dims strides = strides_of(x.dims);
  int64_t offset = 0;
  for (size_t r = 0; r < context.results.size(); ++r) {
    Tensor result(x.dtype, context.result_dims[r]);
    for (Index at(result.dims); at.more(); at.next()) result.copy_element(at.linear(), x, offset + at.dot(strides));
    offset += result.dims[axis] * strides[axis];
    context.results[r] = std::move(result);
  }
}

/// Canonical: `split` has an extent for each output.
const OpDef kSplit{.kind = OpKind::Split,
                   .name = "Split",
                   .onnx = {"Split", 2},
                   .attrs = {{"axis", AttrType::Int, 0},
                             {"num_outputs", AttrType::Int},
                             {.name = kPartLengths, .type = AttrType::Texts, .is_own = true},
                             {"split", AttrType::Ints}},
                   .inputs = {1, 2},
                   .outputs = {1, -1},
                   .constant_operands = {{1, "split", AttrType::Ints}},
                   .infer = infer_split,
                   .canonicalize = canonical_split,
                   .relate = relate_split,
                   .linear = {{0}},
                   .eval = eval_split,
                   .decompose = decompose_split,
                   .takes_strings = true};

/// Both directions: depth = channels * block * block, spatial extents times or divided by the block.
static bool infer_blocks(const OpView& op, bool to_depth, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 4, 4) || !is_fixed_dim(op, 0, 1)) return false;
  if (to_depth && !(is_fixed_dim(op, 0, 2) && is_fixed_dim(op, 0, 3))) return false;
  const Dims d = op.dims(0);
  const int64_t size = int_of(op.op(), "blocksize");
  const std::optional<int64_t> area = checked_product(size, size);
  const bool fits = size > 0 && area && checked_product(*area, d[1]) &&
                    (to_depth ? d[2] % size == 0 && d[3] % size == 0 : d[1] % (size * size) == 0);
  if (!fits) return op.fail("blocksize", "blocks of {} do not divide {}", size, dims_text(d));
  Shape shape = op.type(0).shape;
  shape[1].bound = to_depth ? d[1] * size * size : d[1] / (size * size);
  for (size_t i = 2; i < 4; ++i) {
    if (!to_depth) shape[i] = op.extent(length_of(shape[i]) * size);
    shape[i].bound = to_depth ? d[i] / size : d[i] * size;
  }
  results = {{op.type(0).dtype, shape, {}}};
  return true;
}

/// DepthToSpace-13: with mode DCR the block's dims come before the depth, with CRD after it.
static std::vector<ValueId> decompose_depth_to_space(Builder& build, const OpView& op) {
  const Shape x = op.type(0).shape, result = op.result_type(0).shape;
  const int64_t b = int_of(op.op(), "blocksize");
  const Extent block{b}, depth{x[1].bound / (b * b)};
  const bool column_first = text_of(op.op(), "mode") == "CRD";
  const Shape blocks =
      column_first ? Shape{x[0], depth, block, block, x[2], x[3]} : Shape{x[0], block, block, depth, x[2], x[3]};
  const std::vector<int64_t> perm = column_first ? Dims{0, 1, 4, 2, 5, 3} : Dims{0, 3, 4, 1, 5, 2};
  return {build.reshape_to(build.transpose(build.reshape_to(op.op().inputs[0], blocks), perm), result)};
}

/// The inverse of DepthToSpace in the same mode.
static std::vector<ValueId> decompose_space_to_depth(Builder& build, const OpView& op) {
  const Shape x = op.type(0).shape, result = op.result_type(0).shape;
  const Extent block{int_of(op.op(), "blocksize")};
  const ValueId blocks = build.reshape_to(op.op().inputs[0], {x[0], x[1], result[2], block, result[3], block});
  const bool column_first = text_of(op.op(), "mode") == "CRD";
  const std::vector<int64_t> perm = column_first ? Dims{0, 1, 3, 5, 2, 4} : Dims{0, 3, 5, 1, 2, 4};
  return {build.reshape_to(build.transpose(blocks, perm), result)};
}

const OpDef kDepthToSpace{
    .kind = OpKind::DepthToSpace,
    .name = "DepthToSpace",
    .onnx = {"DepthToSpace"},
    .attrs = {{"blocksize", AttrType::Int, {}, true}, choice("mode", "DCR", "DCR CRD")},
    .infer = [](const OpView& op, std::vector<TensorType>& results) { return infer_blocks(op, false, results); },
    .decompose = decompose_depth_to_space};

const OpDef kSpaceToDepth{
    .kind = OpKind::SpaceToDepth,
    .name = "SpaceToDepth",
    .onnx = {"SpaceToDepth"},
    .attrs = {{"blocksize", AttrType::Int, {}, true}, choice("mode", "DCR", "DCR CRD")},
    .infer = [](const OpView& op, std::vector<TensorType>& results) { return infer_blocks(op, true, results); },
    .decompose = decompose_space_to_depth};

}  // namespace weftc

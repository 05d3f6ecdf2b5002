// Pad (ONNX Pad-18): adds elements around a tensor, a fill value or elements of its own. Their number may be a run-time
// length. It is a view: a padded element is a condition in a kernel. A slice over ranks is kept as in a Slice.
//
//   Pad(x f32[2, 3], [0, 1, 0, 0])               ->  f32[2, 4]: one element before each row
//   Pad(x f32[n, 3], [0, 0, -n % 4, 0])          ->  Concat(x, fill values f32[-n % 4, 3])
//   Pad of mode edge (x f32[8], [3, -2])         ->  Pad of mode edge (Pad(x, [0, -2]), [3, 0])
//   Pad(x f32[8], [1, 0], v f32[])               ->  Where(an index i of x, Pad(x, [1, 0]), v)
#include <algorithm>

#include "ir/ops/formula.h"
#include "ir/ops/gradient.h"
#include "ir/ops/index.h"
#include "ir/ops/relations.h"
#include "ir/ops/view.h"

namespace weftc {

/// Elements added before and after each dimension, all befores first; nothing after reporting.
static std::optional<std::vector<Length>> full_pads(const OpView& op) {
  const int ndim = op.type(0).ndim();
  const std::vector<Length> pads = *op.lengths_of("pads", 1);
  std::optional<std::vector<int64_t>> axes = op.axes("axes", ndim);
  if (!axes) return {};
  if (axes->empty()) axes = range_of(0, ndim);
  if (pads.size() != 2 * axes->size())
    return op.fail("pad-lengths", "{} pads for {} axes", pads.size(), axes->size()), std::nullopt;
  std::vector<Length> full(size_t{2} * ndim, 0);
  for (size_t i = 0; i < axes->size(); ++i) {
    full[(*axes)[i]] = pads[i];
    full[ndim + (*axes)[i]] = pads[axes->size() + i];
  }
  return full;
}

static bool are_numbers(const std::vector<Length>& lengths) {
  return std::all_of(lengths.begin(), lengths.end(), [](const Length& length) { return length.is_constant(); });
}

/// The dimension with more elements at both ends; nothing after reporting.
static std::optional<Extent> padded(const OpView& op, const Extent& from, const Length& before, const Length& after) {
  const Length all = length_of(from) + before + after;
  if (before.is_constant() && after.is_constant()) {
    Extent extent = all.is_constant() ? Extent{} : op.extent(maximum(all, 0));
    extent.bound = from.bound + before.constant() + after.constant();
    if (extent.bound >= 0) return extent;
  } else if (before.low() >= 0 && after.low() >= 0) {
    return op.extent(all);
  } else {
    op.fail("pad-sign-unsupported",
            "whether pads {} and {} are negative is known at run time only; pin them with --dim", before.text(),
            after.text());
    return {};
  }
  op.fail("pad-size", "pads {} and {} do not fit an extent of {}", before.text(), after.text(), from.bound);
  return {};
}

static bool repeats_elements(const OpView& op) { return text_of(op.op(), "mode") != "constant"; }

/// The length of a dimension after negative pads. The other modes repeat elements of that part.
static Length uncut(const Extent& extent, const Length& before, const Length& after) {
  return length_of(extent) + minimum(before, 0) + minimum(after, 0);
}

/// Whether only a run knows the fill value.
static bool has_run_time_fill(const OpView& op) { return op.has(2) && !repeats_elements(op); }

static bool is_fill(const OpView& op, int input) {
  return (op.type(input).count() == 1 && op.type(input).dtype == op.type(0).dtype) ||
         op.fail("pad-value", "the fill value must be one element of type {}, not {} of type {}",
                 dtype_name(op.type(0).dtype), shape_text(op.type(input).shape), dtype_name(op.type(input).dtype));
}

/// Pad-18: pads may be negative, which cuts. Modes that repeat elements need at least one.
static bool infer_pad(const OpView& op, std::vector<TensorType>& results) {
  if (!op.lengths_of("pads", 1) && !is_given(op, 1, "pads", "list of pads")) return false;
  if ((has_run_time_fill(op) && !is_fill(op, 2)) || !is_known(op, 3, "axes", "list of axes")) return false;
  const std::string& mode = text_of(op.op(), "mode");
  const std::optional<std::vector<Length>> pads = full_pads(op);
  if (!pads) return false;
  if (repeats_elements(op) && !are_numbers(*pads))
    return op.fail("pad-length-unsupported", "run-time pads {} are not supported with mode '{}'; pin them with --dim",
                   text_of(*pads), mode);
  TensorType type{op.type(0).dtype, op.type(0).shape, {}};
  const size_t ndim = type.shape.size();
  for (size_t d = 0; d < ndim; ++d) {
    const Length &before = (*pads)[d], &after = (*pads)[ndim + d];
    if (before == 0 && after == 0) continue;
    const std::optional<Extent> extent = padded(op, type.shape[d], before, after);
    if (!extent) return false;
    const bool adds = before.high() > 0 || after.high() > 0;
    if (repeats_elements(op) && adds && uncut(type.shape[d], before, after).high() < 1)
      return op.fail("pad-size", "pads {} and {} do not fit an extent of {}", before.text(), after.text(),
                     type.shape[d].bound);
    type.shape[d] = *extent;
  }
  results = {type};
  return true;
}

/// No more is cut than the extent, and the modes that repeat elements need at least one remaining element.
static std::vector<LengthRelation> relate_pad(const OpView& op) {
  std::vector<LengthRelation> relations;
  const std::vector<int64_t> pads = ints_of(op.op(), "pads");
  const Shape& shape = op.type(0).shape;
  for (size_t d = 0; d < pads.size() / 2; ++d) {
    const int64_t before = pads[d], after = pads[shape.size() + d];
    relations.push_back(at_most(0, length_of(shape[d]) + before + after));
    if (repeats_elements(op) && (before > 0 || after > 0))
      relations.push_back(at_most(1, uncut(shape[d], before, after)));
  }
  return relations;
}

/// Two entries for each dimension. With pads of run-time length the op stays as it is until it is decomposed.
static void canonical_pad(Op& op, const OpView& view) {
  const std::vector<Length> pads = *full_pads(view);
  fill_defaults(op);
  if (is_float(view.type(0).dtype))
    op.remove("whole");
  else if (!op.has("whole"))
    op.set("whole", static_cast<int64_t>(real_of(op, "value")));
  if (!are_numbers(pads)) return;
  std::vector<int64_t> numbers;
  for (const Length& pad : pads) numbers.push_back(pad.constant());
  op.set("pads", numbers);
  op.remove("axes");
}

/// The fill value, a scalar.
static Tensor filler(const Op& op, DType dtype) {
  Tensor scalar = Tensor::scalar(dtype, real_of(op, "value"));
  if (!scalar.is_real()) scalar.put_int(0, int_of(op, "whole"));
  return scalar;
}

/// The attributes of a Pad with constant pads that uses the same fill value.
static Attrs with_pads(const Op& op, const std::vector<int64_t>& pads) {
  Attrs attrs{{"pads", pads}, {"value", real_of(op, "value")}};
  if (op.has("whole")) attrs.push_back({"whole", op.integer("whole")});
  return attrs;
}

/// Cuts by negative pads first, then repeats elements.
static std::vector<ValueId> cut_and_repeat(Builder& build, const OpView& op) {
  std::vector<int64_t> cuts = ints_of(op.op(), "pads"), adds = cuts;
  for (int64_t& pad : cuts) pad = std::min<int64_t>(pad, 0);
  for (int64_t& pad : adds) pad = std::max<int64_t>(pad, 0);
  const ValueId cut = build.op(OpKind::Pad, {op.op().inputs[0]}, with_pads(op.op(), cuts));
  if (std::ranges::all_of(adds, [](int64_t pad) { return pad == 0; })) return {cut};
  return {build.op(OpKind::Pad, {cut}, {{"mode", text_of(op.op(), "mode")}, {"pads", adds}})};
}

/// Pads with zeros, and then replaces the elements that the operand does not have.
static std::vector<ValueId> fill_at_run_time(Builder& build, const OpView& op) {
  const Op own = op.op();  // NOLINT(performance-unnecessary-copy-initialization): ops move
  const std::vector<Length> pads = *full_pads(op);
  const Shape shape = op.type(0).shape;
  const int ndim = op.type(0).ndim();
  const Term fill = Term(build, own.inputs[2]).reshape({});
  std::vector<ValueId> inputs{own.inputs[0]};
  if (op.has(1)) inputs.push_back(own.inputs[1]);
  const Term all(build, build.op(OpKind::Pad, inputs, own.attrs));
  const auto number = [&](const Length& length) { return Term(build, build.length(length)); };
  std::optional<Term> is_inside;
  for (int d = 0; d < ndim; ++d) {
    const Length &before = pads[static_cast<size_t>(d)], &after = pads[static_cast<size_t>(ndim + d)];
    if (before == 0 && after == 0) continue;
    const Extent& extent = shape[static_cast<size_t>(d)];
    const Term at = positions(build, DType::I64, all.shape()[static_cast<size_t>(d)], d, ndim);
    const Term fits = at >= number(before) && at < number(before + length_of(extent));
    is_inside = is_inside ? *is_inside && fits : fits;
  }
  return {(is_inside ? is_inside->choose(all, fill) : all).value()};
}

/// Run-time pads become a Concat with fill values; constant pads remain a Pad.
static std::vector<ValueId> decompose_pad(Builder& build, const OpView& op) {
  if (repeats_elements(op)) return cut_and_repeat(build, op);
  if (has_run_time_fill(op)) return fill_at_run_time(build, op);
  const std::vector<Length> pads = *full_pads(op);
  const size_t ndim = pads.size() / 2;
  std::vector<int64_t> numbers;
  for (const Length& pad : pads) numbers.push_back(pad.is_constant() ? pad.constant() : 0);
  ValueId x = op.op().inputs[0];
  if (std::any_of(numbers.begin(), numbers.end(), [](int64_t pad) { return pad != 0; }))
    x = build.op(OpKind::Pad, {x}, with_pads(op.op(), numbers));
  const auto fillers = [&](size_t d, const Length& count) {
    Shape shape = build.type(x).shape;
    shape[d] = op.extent(count);
    const ValueId element = build.constant(filler(op.op(), op.type(0).dtype));
    return build.with_lengths(build.op(OpKind::Expand, {element}, {{"shape", bounds(shape)}}), shape);
  };
  for (size_t d = 0; d < ndim; ++d) {
    std::vector<ValueId> parts;
    if (!pads[d].is_constant()) parts.push_back(fillers(d, pads[d]));
    parts.push_back(x);
    if (!pads[ndim + d].is_constant()) parts.push_back(fillers(d, pads[ndim + d]));
    if (parts.size() > 1) x = build.op(OpKind::Concat, parts, {{"axis", static_cast<int64_t>(d)}});
  }
  return {x};
}

/// The operand's index for index `i` counted from its first element, or -1 for the fill value.
static int64_t padded_source(const std::string& mode, int64_t i, int64_t extent) {
  if (i >= 0 && i < extent) return i;
  if (mode == "constant" || extent == 0) return -1;
  if (mode == "edge") return std::clamp<int64_t>(i, 0, extent - 1);
  if (mode == "wrap") return (i % extent + extent) % extent;
  if (extent == 1) return 0;
  const int64_t period = 2 * (extent - 1), at = (i % period + period) % period;
  return at < extent ? at : period - at;
}

static void eval_pad(EvalContext& context) {
  const Tensor& x = context.in(0);
  const std::vector<int64_t>& pads = context.op.ints("pads");
  const std::string& mode = text_of(context.op, "mode");
  const Dims strides = strides_of(x.dims);
  Tensor result(x.dtype, context.result_dims[0]);
  const Tensor fill = filler(context.op, x.dtype);
  for (Index at(result.dims); at.more(); at.next()) {
    int64_t from = 0;
    for (int d = 0; d < static_cast<int>(strides.size()) && from >= 0; ++d) {
      const int64_t i = padded_source(mode, at[d] - pads[d], x.dims[d]);
      from = i < 0 ? -1 : from + i * strides[d];
    }
    if (from >= 0)
      result.copy_element(at.linear(), x, from);
    else
      result.copy_element(at.linear(), fill, 0);
  }
  context.results[0] = std::move(result);
}

static bool has_known_pads(const OpView& op) { return op.op().has("pads"); }

/// True for constant pads that do not cut elements which the other modes repeat.
static bool is_view(const OpView& op) {
  const std::vector<int64_t> pads = ints_of(op.op(), "pads");
  const bool cuts = std::ranges::any_of(pads, [](int64_t pad) { return pad < 0; });
  return has_known_pads(op) && !has_run_time_fill(op) && !(cuts && repeats_elements(op));
}

/// For the other modes: adds the derivatives of all copies of an element, one dimension after another.
static Term gradient_of_repeats(const BackwardStep& s) {
  const std::vector<int64_t>& pads = s.op.ints("pads");
  const std::string& mode = text_of(s.op, "mode");
  Term g = s.g;
  const Dims x = s.in(0).dims();
  for (size_t d = 0; d < x.size(); ++d) {
    Dims data = g.dims();
    if (data[d] == x[d]) continue;
    std::vector<int64_t> sources;
    for (int64_t i = 0; i < data[d]; ++i) sources.push_back(padded_source(mode, i - pads[d], x[d]));
    data[d] = x[d];
    g = added_along(s.build, data, static_cast<int64_t>(d), Term(s.build, s.build.ints(sources)), g);
  }
  return g;
}

/// For constant padding: added elements are cut off; the derivative of cut elements is 0.
static Derivatives gradient_of_pad(const BackwardStep& s) {
  if (repeats_elements(s.view)) return {gradient_of_repeats(s)};
  std::vector<int64_t> pads = s.op.ints("pads");
  for (int64_t& pad : pads) pad = -pad;
  return {Term(s.build, s.build.op(OpKind::Pad, {s.g.value()}, {{"pads", pads}}))};
}

/// Canonical: `pads` has an entry before each dimension, then one after each; negative ones cut. Integers are filled
/// with `whole`, which holds 64 bits while `value` has 53.
const OpDef kPad{.kind = OpKind::Pad,
                 .name = "Pad",
                 .onnx = {"Pad", 2},
                 .attrs = {{.name = "axes", .type = AttrType::Ints, .is_own = true},
                           choice("mode", "constant", "constant reflect edge wrap"),
                           {"pads", AttrType::Ints},
                           {"value", AttrType::Real, 0.0},
                           {.name = "whole", .type = AttrType::Int, .is_own = true}},
                 .inputs = {1, 4},
                 .category = Category::View,
                 .constant_operands = {{1, "pads", AttrType::Ints},
                                       {2, "value", AttrType::Real},
                                       {2, "whole", AttrType::Int},
                                       {3, "axes", AttrType::Ints}},
                 .infer = infer_pad,
                 .canonicalize = canonical_pad,
                 .relate = relate_pad,
                 .linear = {{0}},
                 .is_linear = [](const OpView& op) { return repeats_elements(op) || real_of(op.op(), "value") == 0; },
                 .gradient = gradient_of_pad,
                 .eval = eval_pad,
                 .decompose = decompose_pad,
                 .is_primitive = is_view,
                 .is_typed_by_parts = [](const OpView& op) { return !has_known_pads(op) || op.has(2); }};

}  // namespace weftc

// Slice and Pad: parts and borders along any dimensions. They are views, which kernels resolve in the index of
// a load (a padded element is a condition there). A slice over ranks survives if all cuts fall on its block
// boundaries (L5).
//
//   Slice(x f32[8], start 6, end INT64_MIN, step -2)  ->  start 6, step -2, count 4: elements 6 4 2 0
//   Pad(x f32[3], 1, 2)                               ->  f32[6]: fill x0 x1 x2 fill fill
#include <algorithm>

#include "ir/ops/view.h"

namespace weftc {

/// ONNX Slice-13 clamps starts and ends into [0, extent] for a positive step, into [0, extent - 1] and [-1,
/// extent - 1] for a negative one. A negative number counts from the end first.
static SliceDim clamp(int64_t start, int64_t end, int64_t step, int64_t extent) {
  if (start < 0) start += extent;
  if (end < 0) end = end < -extent ? -1 : end + extent;  // also for INT64_MIN, "before the first"
  const bool up = step > 0;
  start = std::clamp<int64_t>(start, 0, up ? extent : std::max<int64_t>(extent - 1, 0));
  end = std::clamp<int64_t>(end, up ? 0 : -1, up ? extent : extent - 1);
  const int64_t span = up ? end - start : start - end, stride = up ? step : -step;
  return {start, step, extent == 0 || span <= 0 ? 0 : (span - 1) / stride + 1};
}

std::optional<std::vector<SliceDim>> slice_dims(const OpView& op) {
  const int ndim = op.type(0).ndim();
  const std::vector<int64_t> starts = ints_of(op.op(), "starts"), ends = ints_of(op.op(), "ends");
  std::vector<int64_t> steps = ints_of(op.op(), "steps");
  std::optional<std::vector<int64_t>> axes = op.axes("axes", ndim);
  if (!axes) return {};
  if (axes->empty()) axes = range_of(0, static_cast<int64_t>(starts.size()));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes->size() != starts.size() || steps.size() != starts.size() ||
      static_cast<int>(starts.size()) > ndim)
    return op.fail("slice-lengths", "starts, ends, axes and steps have {}, {}, {} and {} entries", starts.size(),
                   ends.size(), axes->size(), steps.size()),
           std::nullopt;
  std::vector<SliceDim> dims;
  for (const Extent& extent : op.type(0).shape) dims.push_back({0, 1, extent.bound});
  for (size_t i = 0; i < starts.size(); ++i) {
    if (steps[i] == 0 || steps[i] == INT64_MIN)
      return op.fail("slice-step", "step {} is not possible", steps[i]), std::nullopt;
    dims[(*axes)[i]] = clamp(starts[i], ends[i], steps[i], dims[(*axes)[i]].count);
  }
  return dims;
}

/// Starts, ends, axes and steps must be known. A dimension of run-time length must stay as it is.
static bool infer_slice(const OpView& op, std::vector<TensorType>& results) {
  if (!is_given(op, 1, "starts", "list of starts") || !is_given(op, 2, "ends", "list of ends") ||
      !is_known(op, 3, "axes", "list of axes") || !is_known(op, 4, "steps", "list of steps"))
    return false;
  const std::optional<std::vector<SliceDim>> dims = slice_dims(op);
  if (!dims) return false;
  TensorType type{op.type(0).dtype, op.type(0).shape, {}};
  for (size_t d = 0; d < dims->size(); ++d) {
    const SliceDim& slice = (*dims)[d];
    const bool everything = slice.count == type.shape[d].bound && slice.step == 1;
    if (type.shape[d].count && !everything)
      return op.fail("slice-bounded-unsupported",
                     "dimension {} has a run-time length and cannot be cut; pin it with --dim", d);
    type.shape[d].bound = slice.count;
  }
  results = {type};
  return true;
}

/// One entry for each dimension, so that later passes read them without ONNX's defaults.
static void canonical_slice(Op& op, const OpView& view) {
  std::vector<int64_t> starts, ends, steps;
  const std::vector<SliceDim> dims = *slice_dims(view);
  for (const SliceDim& d : dims) {
    const int64_t end = d.start + d.count * d.step;
    starts.push_back(d.start);
    ends.push_back(end < 0 ? INT64_MIN : end);
    steps.push_back(d.step);
  }
  op.set("starts", starts);
  op.set("ends", ends);
  op.set("steps", steps);
  op.remove("axes");
}

static void eval_slice(EvalContext& context) {
  const Tensor& x = context.in(0);
  const std::vector<int64_t>&starts = context.op.ints("starts"), &steps = context.op.ints("steps");
  const Dims strides = strides_of(x.dims);
  Tensor result(x.dtype, context.result_dims[0]);
  for (Index at(result.dims); at.more(); at.next()) {
    int64_t from = 0;
    for (int d = 0; d < static_cast<int>(strides.size()); ++d) from += (starts[d] + at[d] * steps[d]) * strides[d];
    result.copy_element(at.linear(), x, from);
  }
  context.results[0] = std::move(result);
}

Attrs slice_of(const Dims& dims, int64_t axis, int64_t start, int64_t end) {
  std::vector<int64_t> starts(dims.size(), 0), ends = dims;
  starts[axis] = start;
  ends[axis] = end;
  return {{"ends", ends}, {"starts", starts}, {"steps", std::vector<int64_t>(dims.size(), 1)}};
}

/// Canonical: one entry of starts, ends and steps for each dimension, starts in range; an end before the first element
/// (negative step) is INT64_MIN.
const OpDef kSlice{.kind = OpKind::Slice,
                   .name = "Slice",
                   .onnx = {"Slice"},
                   .attrs = {{"axes", AttrType::Ints},
                             {"ends", AttrType::Ints},
                             {"starts", AttrType::Ints},
                             {"steps", AttrType::Ints}},
                   .inputs = {1, 5},
                   .category = Category::View,
                   .constant_operands = {{1, "starts", AttrType::Ints},
                                         {2, "ends", AttrType::Ints},
                                         {3, "axes", AttrType::Ints},
                                         {4, "steps", AttrType::Ints}},
                   .infer = infer_slice,
                   .canonicalize = canonical_slice,
                   .linear = {{0}},
                   .eval = eval_slice};

/// Elements before and behind each dimension, all befores first; nothing after reporting.
static std::optional<std::vector<int64_t>> full_pads(const OpView& op) {
  const int ndim = op.type(0).ndim();
  const std::vector<int64_t> pads = ints_of(op.op(), "pads");
  std::optional<std::vector<int64_t>> axes = op.axes("axes", ndim);
  if (!axes) return {};
  if (axes->empty()) axes = range_of(0, ndim);
  if (pads.size() != 2 * axes->size())
    return op.fail("pad-lengths", "{} pads for {} axes", pads.size(), axes->size()), std::nullopt;
  std::vector<int64_t> full(size_t{2} * ndim, 0);
  for (size_t i = 0; i < axes->size(); ++i) {
    full[(*axes)[i]] = pads[i];
    full[ndim + (*axes)[i]] = pads[axes->size() + i];
  }
  return full;
}

/// Pad-18: pads may be negative, which cuts; the modes that repeat elements need some to repeat.
static bool infer_pad(const OpView& op, std::vector<TensorType>& results) {
  if (!is_given(op, 1, "pads", "list of pads") || !is_known(op, 2, "value", "fill value") ||
      !is_known(op, 3, "axes", "list of axes"))
    return false;
  const std::string& mode = text_of(op.op(), "mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return op.fail("pad-mode", "mode '{}' is unknown, expected constant, reflect, edge or wrap", printable(mode));
  const std::optional<std::vector<int64_t>> pads = full_pads(op);
  if (!pads) return false;
  TensorType type{op.type(0).dtype, op.type(0).shape, {}};
  const int ndim = type.ndim();
  for (int d = 0; d < ndim; ++d) {
    const int64_t before = (*pads)[d], behind = (*pads)[ndim + d], extent = type.shape[d].bound;
    if ((before || behind) && type.shape[d].count && !is_fixed(op, 0)) return false;
    if (extent + before + behind < 0 || (extent == 0 && before + behind > 0 && mode != "constant"))
      return op.fail("pad-size", "pads {} and {} do not fit an extent of {}", before, behind, extent);
    type.shape[d].bound = extent + before + behind;
  }
  results = {type};
  return true;
}

/// Two entries for each dimension.
static void canonical_pad(Op& op, const OpView& view) {
  const std::vector<int64_t> pads = *full_pads(view);
  fill_defaults(op);
  op.set("pads", pads);
  op.remove("axes");
}

/// The operand's index for index `i` counted from its first element, or -1 for the fill value.
static int64_t padded_source(const std::string& mode, int64_t i, int64_t extent) {
  if (i >= 0 && i < extent) return i;
  if (mode == "constant") return -1;
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
  for (Index at(result.dims); at.more(); at.next()) {
    int64_t from = 0;
    for (int d = 0; d < static_cast<int>(strides.size()) && from >= 0; ++d) {
      const int64_t i = padded_source(mode, at[d] - pads[d], x.dims[d]);
      from = i < 0 ? -1 : from + i * strides[d];
    }
    if (from >= 0)
      result.copy_element(at.linear(), x, from);
    else
      result.put(at.linear(), real_of(context.op, "value"));
  }
  context.results[0] = std::move(result);
}

/// Canonical: `pads` has an entry before each dimension, then one behind each; negative ones cut.
const OpDef kPad{
    .kind = OpKind::Pad,
    .name = "Pad",
    .onnx = {"Pad", 2},
    .attrs = {{"axes", AttrType::Ints},
              {"mode", AttrType::Text, "constant"},
              {"pads", AttrType::Ints},
              {"value", AttrType::Real, 0.0}},
    .inputs = {1, 4},
    .category = Category::View,
    .constant_operands = {{1, "pads", AttrType::Ints}, {2, "value", AttrType::Real}, {3, "axes", AttrType::Ints}},
    .infer = infer_pad,
    .canonicalize = canonical_pad,
    .linear = {{0}},
    .is_linear =
        [](const OpView& op) { return text_of(op.op(), "mode") != "constant" || real_of(op.op(), "value") == 0; },
    .eval = eval_pad};

}  // namespace weftc

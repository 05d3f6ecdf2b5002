// Slice: parts along any dimensions. It is a view, which kernels resolve in the index of a load. A slice over ranks
// survives if all cuts fall on its block boundaries (L5).
//
//   Slice(x f32[8], start 6, end INT64_MIN, step -2)  ->  start 6, step -2, count 4: elements 6 4 2 0
//   Slice(x f32[n], start -2, end INT64_MAX)          ->  start max(n - 2, 0), step 1, count min(2, n)
//   Slice(x f32[n], start -1, end INT64_MIN, step -1) ->  start n - 1, step -1, count n
#include <algorithm>

#include "ir/base/checked.h"
#include "ir/ops/gradient.h"
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

namespace {
/// The entries of a Slice for each dimension that it names, with omitted `axes` and `steps` filled in.
struct SliceEntries {
  std::vector<int64_t> axes, steps;
};
}  // namespace

/// The entries for given numbers of `starts` and `ends`; nothing after reporting.
static std::optional<SliceEntries> entries_of(const OpView& op, size_t starts, size_t ends) {
  const int ndim = op.type(0).ndim();
  std::optional<std::vector<int64_t>> axes = op.axes("axes", ndim);
  if (!axes) return {};
  SliceEntries entries{std::move(*axes), ints_of(op.op(), "steps")};
  if (entries.axes.empty()) entries.axes = range_of(0, static_cast<int64_t>(starts));
  if (entries.steps.empty()) entries.steps.assign(starts, 1);
  if (ends != starts || entries.axes.size() != starts || entries.steps.size() != starts ||
      static_cast<int>(starts) > ndim)
    return op.fail("slice-lengths", "starts, ends, axes and steps have {}, {}, {} and {} entries", starts, ends,
                   entries.axes.size(), entries.steps.size()),
           std::nullopt;
  for (int64_t& step : entries.steps) {
    if (step == 0 || step == INT64_MIN) return op.fail("slice-step", "step {} is not possible", step), std::nullopt;
    step = std::clamp(step, -kMostExtent, kMostExtent);  // a step beyond the extent acts like a larger one
  }
  return entries;
}

std::optional<std::vector<SliceDim>> slice_dims(const OpView& op) {
  const std::vector<int64_t> starts = ints_of(op.op(), "starts"), ends = ints_of(op.op(), "ends");
  const std::optional<SliceEntries> entries = entries_of(op, starts.size(), ends.size());
  if (!entries) return {};
  std::vector<SliceDim> dims;
  for (const Extent& extent : op.type(0).shape) dims.push_back({0, 1, extent.bound});
  for (size_t i = 0; i < starts.size(); ++i) {
    SliceDim& dim = dims[static_cast<size_t>(entries->axes[i])];
    dim = clamp(starts[i], ends[i], entries->steps[i], dim.count);
  }
  return dims;
}

namespace {
/// One dimension of a Slice by lengths: `count` elements from `start` on, `step` apart.
struct LengthSlice {
  Length start;
  int64_t step = 1;
  Length count;
};
}  // namespace

/// A start or end counted from the first element. A length that may be negative uses min(1, max(-position, 0)), which
/// is 1 if the position counts from the end.
static Length counted_from_front(const Length& position, const Length& extent) {
  if (position.low() >= 0) return position;
  if (position.high() < 0) return extent + position;
  return position + extent * minimum(1, maximum(Length() - position, 0));
}

/// The length clamped to [0, `most`].
static Length clamped(const Length& length, const Length& most) {
  if ((length - most).low() >= 0) return most;
  if ((most - length).low() >= 0) return maximum(length, 0);
  return minimum(maximum(length, 0), most);
}

/// True for a position x, such as n - 2 of n elements, that means 0 whenever it is negative: extent + x is then at most
/// 0.
static bool is_clamped_below_zero(const Length& position, const Length& extent) {
  return position.low() < 0 && position.high() >= 0 && (extent - position).high() <= 2;
}

/// The number of elements at distance `step` in a span. The last one may have fewer than step - 1 elements after it.
static std::optional<Length> count_of(const Length& span, int64_t step) {
  return floor_quotient(maximum(span, 0) + (step - 1), step);
}

static std::optional<LengthSlice> cut_forwards(const Length& start, const Length& end, int64_t step,
                                               const Length& extent) {
  // A constant start is kept even if it is after the last element: no elements are read then.
  const bool is_kept = start.is_constant() && start.constant() >= 0;
  const Length first = is_clamped_below_zero(start, extent) ? start : counted_from_front(start, extent);
  const Length last = clamped(is_clamped_below_zero(end, extent) ? end : counted_from_front(end, extent), extent);
  // last - max(first, 0)
  const std::optional<Length> count = count_of(minimum(last - first, last), step);
  return count ? std::optional(LengthSlice{is_kept ? start : clamped(first, extent), step, *count}) : std::nullopt;
}

/// A slice with negative step. Start and end are increased by one before they are clamped, so that both are exclusive
/// upper positions.
static std::optional<LengthSlice> cut_backwards(const Length& start, const Length& end, int64_t step,
                                                const Length& extent) {
  const Length from = counted_from_front(start, extent) + 1;
  const bool is_after_all = (from - extent).low() >= 0;
  const Length after = is_after_all ? extent : clamped(maximum(from, 1), extent);
  const Length last = clamped(counted_from_front(end, extent) + 1, extent);
  const std::optional<Length> count = count_of(after - last, -step);
  return count ? std::optional(LengthSlice{after - 1, step, *count}) : std::nullopt;
}

/// The part of a dimension of `extent` elements that a Slice takes; nothing if that is not a length.
static std::optional<LengthSlice> cut(const Length& start, const Length& end, int64_t step, const Length& extent) {
  if (start.is_constant() && end.is_constant() && extent.is_constant()) {
    const SliceDim dim = clamp(start.constant(), end.constant(), step, extent.constant());
    return LengthSlice{dim.start, dim.step, dim.count};
  }
  return step < 0 ? cut_backwards(start, end, step, extent) : cut_forwards(start, end, step, extent);
}

/// True if the Slice depends on a number that only a run knows.
static bool is_cut_at_run_time(const OpView& op) {
  const bool is_operand = op.has(1) || op.has(2);
  return is_operand || !is_static(op.type(0).shape);
}

/// All dimensions of a Slice whose starts, ends or extents are lengths; nothing after reporting.
static std::optional<std::vector<LengthSlice>> length_slices(const OpView& op) {
  const auto starts = op.lengths_of("starts", 1), ends = op.lengths_of("ends", 2);
  const std::optional<SliceEntries> entries = entries_of(op, starts->size(), ends->size());
  if (!entries) return {};
  std::vector<LengthSlice> slices;
  for (const Extent& extent : op.type(0).shape) slices.push_back({0, 1, length_of(extent)});
  for (size_t i = 0; i < starts->size(); ++i) {
    LengthSlice& slice = slices[static_cast<size_t>(entries->axes[i])];
    const std::optional<LengthSlice> made = cut((*starts)[i], (*ends)[i], entries->steps[i], slice.count);
    if (!made)
      return op.fail(
                 "slice-bounded-unsupported",
                 "elements {} to {} in steps of {} of dimension {} (of length {}) are not known at compile time; pin "
                 "the length with --dim",
                 (*starts)[i].text(), (*ends)[i].text(), entries->steps[i], entries->axes[i], slice.count.text()),
             std::nullopt;
    slice = *made;
  }
  return slices;
}

/// A Slice with constant starts, of a static shape. All later passes see this form only, besides ends of run-time
/// length.
static bool infer_fixed_slice(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<std::vector<SliceDim>> dims = slice_dims(op);
  if (!dims) return false;
  TensorType type{op.type(0).dtype, op.type(0).shape, {}};
  for (size_t d = 0; d < dims->size(); ++d) type.shape[d].bound = (*dims)[d].count;
  results = {type};
  return true;
}

/// Starts and ends must be known, as numbers or as lengths; axes and steps as numbers.
static bool infer_slice(const OpView& op, std::vector<TensorType>& results) {
  if (!op.lengths_of("starts", 1) && !is_given(op, 1, "starts", "list of starts")) return false;
  if (!op.lengths_of("ends", 2) && !is_given(op, 2, "ends", "list of ends")) return false;
  if (!is_known(op, 3, "axes", "list of axes") || !is_known(op, 4, "steps", "list of steps")) return false;
  if (!is_cut_at_run_time(op)) return infer_fixed_slice(op, results);
  const std::optional<std::vector<LengthSlice>> slices = length_slices(op);
  if (!slices) return false;
  TensorType type{op.type(0).dtype, {}, {}};
  for (size_t d = 0; d < slices->size(); ++d) {
    const Extent& from = op.type(0).shape[d];
    const LengthSlice& slice = (*slices)[d];
    type.shape.push_back(slice.count == length_of(from) ? from : op.extent(slice.count));
    if (!slice.start.is_constant() && &op.graph() != &op.module().graph)
      return op.fail("slice-start-unsupported", "the start {} of dimension {} is not known inside a branch or loop",
                     slice.start.text(), d);
  }
  results = {type};
  return true;
}

/// The entries of one dimension of a canonical Slice.
static void add_entry(Op& op, int64_t start, int64_t end, int64_t step) {
  const std::pair<const char*, int64_t> entries[] = {{"starts", start}, {"ends", end}, {"steps", step}};
  for (const auto& [attr, value] : entries) {
    std::vector<int64_t> values = ints_of(op, attr);
    values.push_back(value);
    op.set(attr, values);
  }
}

/// False if the first element depends on a run-time length: the op must be decomposed.
static bool is_canonical(const OpView& op) { return !op.op().has("axes"); }

/// One entry for each dimension, so that later passes need not apply ONNX's defaults. If a start is not constant, the
/// op keeps its axes until it is decomposed.
static void canonical_slice(Op& op, const OpView& view) {
  if (is_cut_at_run_time(view)) {
    const std::vector<LengthSlice> slices = *length_slices(view);
    if (!std::ranges::all_of(slices, [](const LengthSlice& s) { return s.start.is_constant(); })) {
      const size_t count = view.lengths_of("starts", 1)->size();
      return op.set("axes", entries_of(view, count, count)->axes);
    }
    for (const char* attr : {"axes", "starts", "ends", "steps"}) op.remove(attr);
    for (size_t d = 0; d < slices.size(); ++d) {
      const int64_t start = slices[d].start.constant(), step = slices[d].step;
      const int64_t end = start + view.result_type(0).shape[d].bound * step;
      add_entry(op, start, end < 0 ? INT64_MIN : end, step);
    }
    return;
  }
  const std::vector<SliceDim> dims = *slice_dims(view);
  for (const char* attr : {"axes", "starts", "ends", "steps"}) op.remove(attr);
  for (const SliceDim& d : dims) {
    const int64_t end = d.start + d.count * d.step;
    add_entry(op, d.start, end < 0 ? INT64_MIN : end, d.step);
  }
}

ValueId elements_from(Builder& build, ValueId x, int64_t axis, const Extent& count, const Length& start, int64_t step) {
  const ValueId steps = build.with_lengths(
      build.op(OpKind::Iota, {}, {{"shape", Dims{count.bound}}, {"step", static_cast<double>(step)}}), {count});
  const ValueId at = start == 0 ? steps : build.op(OpKind::Add, {steps, build.length(start)});
  return build.op(OpKind::Gather, {x, at}, {{"axis", axis}, {"inside", int64_t{1}}});
}

static std::vector<ValueId> decompose_slice(Builder& build, const OpView& op) {
  ValueId x = op.op().inputs[0];
  const std::vector<LengthSlice> slices = *length_slices(op);
  const Shape from = op.type(0).shape, shape = op.result_type(0).shape;
  for (size_t d = 0; d < slices.size(); ++d) {
    const LengthSlice& slice = slices[d];
    if (slice.start.is_constant() && slice.step == 1 && slice.count == length_of(from[d])) continue;
    x = elements_from(build, x, static_cast<int64_t>(d), shape[d], slice.start, slice.step);
  }
  return {x};
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

/// Inserts zeros between the elements of one dim and restores the operand's order: undoes a Slice with steps.
static Term spread_by_step(const Term& g, size_t dim, int64_t step, Builder& build) {
  Dims dims = g.dims();
  Term x = g;
  if (step < 0) {
    std::vector<int64_t> starts(dims.size(), 0), ends = dims, steps(dims.size(), 1);
    starts[dim] = std::max<int64_t>(dims[dim] - 1, 0), ends[dim] = INT64_MIN, steps[dim] = -1;
    x = {build, build.op(OpKind::Slice, {x.value()}, {{"ends", ends}, {"starts", starts}, {"steps", steps}})};
  }
  const int64_t gap = std::abs(step) - 1;
  if (gap == 0) return x;
  Dims apart = dims;
  apart.insert(apart.begin() + static_cast<long>(dim) + 1, 1);
  std::vector<int64_t> pads(2 * apart.size(), 0);
  pads[apart.size() + dim + 1] = gap;
  dims[dim] *= gap + 1;
  return Term(build, build.op(OpKind::Pad, {x.reshape(apart).value()}, {{"pads", pads}})).reshape(dims);
}

/// Elements outside of the slice have derivative 0.
static Derivatives gradient_of_slice(const BackwardStep& s) {
  const Dims dims = s.in(0).dims(), counts = s.g.dims();
  const std::vector<int64_t>&starts = s.op.ints("starts"), &steps = s.op.ints("steps");
  Term g = s.g;
  std::vector<int64_t> pads;
  for (size_t d = 0; d < dims.size(); ++d) {
    g = spread_by_step(g, d, steps[d], s.build);
    pads.push_back(steps[d] > 0 ? starts[d] : starts[d] + (counts[d] - 1) * steps[d]);
  }
  for (size_t d = 0; d < dims.size(); ++d) pads.push_back(dims[d] - pads[d] - g.dims()[d]);
  if (element_count(counts) == 0) return {s.zeros_like(0)};
  return {Term(s.build, s.build.op(OpKind::Pad, {g.value()}, {{"pads", pads}}))};
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
                   .gradient = gradient_of_slice,
                   .eval = eval_slice,
                   .decompose = decompose_slice,
                   .is_primitive = is_canonical,
                   .is_typed_by_parts = [](const OpView& op) { return !is_canonical(op); },
                   .takes_strings = true};

}  // namespace weftc

// Resize (ONNX Resize-19) and Upsample: along each axis, every output element is a weighted sum of a few input elements
// whose positions are constants. Each axis therefore becomes Gathers times constant weights.
//
//   linear, 2 -> 4 elements, half_pixel:
//     y = 1 0.75 0.25 1 * Gather(x, 0 0 0 1)  +  0 0.25 0.75 0 * Gather(x, 0 1 1 0)
//
// One Gather for each tap of the widest output element: 1 for nearest, 2 for linear, 4 for cubic, more with
// antialias.
#include "ir/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/base/checked.h"
#include "ir/ops/relations.h"

namespace weftc {

namespace {

/// An input element that an output element reads, and its weight.
struct Tap {
  int64_t index;
  double weight;
};

/// Operands of Upsample and of Resize-10 are x and scales; coordinates are asymmetric. The nearest element is the one
/// below if an axis grows, and the one above if it shrinks.
bool import_resize(Graph& graph, OpId id, int opset, const OpView& view) {
  if (opset > 10) return true;
  if (view.inputs() > 2)
    return view.fail("input-count", "before opset 11 it takes a tensor and scales, not {} inputs", view.inputs());
  if (view.has(1)) {
    const ValueId scales = view.op().inputs[1];
    graph.set_input(id, 1, {});
    graph.add_input(id, scales);
  }
  graph.edit(id).set("coordinate_transformation_mode", std::string("asymmetric"));
  graph.edit(id).set("nearest_mode", std::string(kNearestByScale));
  if (view.op().has("mode") && view.op().text("mode") == "bilinear") graph.edit(id).set("mode", std::string("linear"));
  return true;
}

/// An optional attribute of reals.
std::vector<double> reals_of(const Op& op, const char* attr) {
  return op.has(attr) ? op.reals(attr) : std::vector<double>{};
}

/// Applies the common scale of all axes that keep_aspect_ratio_policy requires.
void keep_ratio(std::vector<ResizeAxis>& axes, const std::string& policy) {
  if (policy == "stretch") return;
  double scale = axes[0].scale;
  for (const ResizeAxis& a : axes) scale = policy == "not_larger" ? std::min(scale, a.scale) : std::max(scale, a.scale);
  for (ResizeAxis& a : axes) {
    a.scale = scale;
    a.out = whole_number(std::floor(scale * static_cast<double>(a.in) + 0.5));
    a.to = a.out;
  }
}

/// The axes with their extents; nothing after reporting.
std::optional<std::vector<ResizeAxis>> resize_axes(const OpView& op) {
  const int ndim = op.type(0).ndim();
  std::optional<std::vector<int64_t>> axes = op.axes("axes", ndim);
  if (!axes) return {};
  if (axes->empty()) axes = range_of(0, ndim);
  const std::vector<double> scales = reals_of(op.op(), "scales"), roi = reals_of(op.op(), "roi");
  const std::vector<Length> sizes = op.lengths_of("sizes", 3).value_or(std::vector<Length>());
  const size_t count = axes->size(), given = sizes.empty() ? scales.size() : sizes.size();
  if (given != count)
    return op.fail("resize-lengths", "{} scales and {} sizes for {} axes", scales.size(), sizes.size(), count),
           std::nullopt;
  std::vector<ResizeAxis> result;
  for (size_t i = 0; i < count; ++i) {
    const Extent& extent = op.type(0).shape[(*axes)[i]];
    const int64_t in = extent.bound;
    ResizeAxis a{(*axes)[i], in, 0, 1, 0, 1, !sizes.empty(), length_of(extent), 0};
    a.out = sizes.empty() ? whole_number(std::floor(static_cast<double>(in) * scales[i])) : sizes[i].high();
    a.scale = sizes.empty() ? scales[i] : static_cast<double>(a.out) / static_cast<double>(std::max<int64_t>(in, 1));
    a.to = sizes.empty() ? a.out : sizes[i];
    if (sizes.empty() && extent.is_run_time()) {
      const std::optional<Length> to = resized_length(a.from, a.scale);
      if (!to)
        return op.fail("resize-length-unsupported", "a run-time length times {} is not supported; pin it with --dim",
                       a.scale),
               std::nullopt;
      a.to = *to;
    }
    if (a.has_size && a.from == a.to) a.scale = 1, a.out = in;
    if (!(a.scale > 0 || (a.has_size && a.out == 0)) || a.out < 0 || (in < 1 && a.out > 0))
      return op.fail("resize-extent", "axis {} of extent {} cannot become {}", a.axis, in, a.out), std::nullopt;
    if (roi.size() == 2 * count) {
      a.roi_start = roi[i];
      a.roi_end = roi[count + i];
    }
    result.push_back(a);
  }
  const bool has_lengths =
      std::any_of(result.begin(), result.end(), [](const ResizeAxis& a) { return a.is_run_time(); });
  if (!sizes.empty() && !has_lengths && !result.empty())
    keep_ratio(result, text_of(op.op(), "keep_aspect_ratio_policy"));
  return result;
}

/// Scales, sizes and the region decide the shape or the weights, hence must be known at compile time.
bool infer_resize(const OpView& op, std::vector<TensorType>& results) {
  if (!is_known(op, 1, "roi", "region") || !is_known(op, 2, "scales", "list of scales")) return false;
  if (!op.lengths_of("sizes", 3) && !is_known(op, 3, "sizes", "list of sizes")) return false;
  const std::optional<std::vector<ResizeAxis>> axes = resize_axes(op);
  if (!axes) return false;
  Shape shape = op.type(0).shape;
  for (const ResizeAxis& a : *axes) {
    if (a.is_unchanged()) continue;
    if (a.is_run_time() && !resizes_lengths(op)) return false;
    shape[a.axis] = a.is_run_time() ? op.extent(a.to) : Extent{a.out};
    shape[a.axis].bound = a.out;
  }
  results = {{op.type(0).dtype, shape, {}}};
  return true;
}

/// The position in the input of output element `i`, by coordinate_transformation_mode (the formulas of ONNX's
/// Resize).
double source_position(const ResizeAxis& a, const std::string& mode, int64_t i) {
  const double x = static_cast<double>(i), in = static_cast<double>(a.in), out = a.scale * in;
  if (mode == "align_corners") return out == 1 ? 0 : x * (in - 1) / (out - 1);
  if (mode == "asymmetric") return x / a.scale;
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (mode == "pytorch_half_pixel") return out == 1 ? -0.5 : (x + 0.5) / a.scale - 0.5;
  if (mode == "half_pixel_symmetric")
    return in / 2 * (1 - static_cast<double>(a.out) / out) + (x + 0.5) / a.scale - 0.5;
  if (mode == "tf_crop_and_resize") {
    const double width = (a.roi_end - a.roi_start) * (in - 1);
    return a.roi_start * (in - 1) + (out == 1 ? width / 2 : x * width / (out - 1));
  }
  return (x + 0.5) / a.scale - 0.5;  // half_pixel
}

/// A position between two elements, rounded.
int64_t nearest_index(double x, const std::string& mode) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  return static_cast<int64_t>(std::ceil(x - 0.5));
}

/// The interpolation kernels: a triangle, and Keys' cubic with coefficient `a`.
double kernel(double t, bool cubic, double a) {
  t = std::fabs(t);
  if (!cubic) return std::max(0.0, 1 - t);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

/// Input elements and weights of one output element at input position x. Positions outside are clamped to the
/// border, or left out with exclude_outside; antialias widens the kernel when the axis shrinks. Weights that
/// may not add up to 1 are normalised.
std::vector<Tap> taps_at(const Op& op, const ResizeAxis& a, double x) {
  const auto clamped = [&](int64_t i) { return std::clamp<int64_t>(i, 0, a.in - 1); };
  const std::string& mode = text_of(op, "mode");
  if (mode == "nearest") return {{clamped(nearest_index(x, nearest_mode(op, a))), 1}};
  const bool cubic = mode == "cubic", antialias = int_of(op, "antialias"), inside_only = int_of(op, "exclude_outside");
  const double narrow = antialias ? std::min(a.scale, 1.0) : 1, reach = (cubic ? 2 : 1) / narrow;
  std::map<int64_t, double> weights;
  double sum = 0;
  for (auto i = static_cast<int64_t>(std::ceil(x - reach)); static_cast<double>(i) <= x + reach; ++i) {
    const double weight = kernel((static_cast<double>(i) - x) * narrow, cubic, real_of(op, "cubic_coeff_a"));
    if (weight == 0 || (inside_only && clamped(i) != i)) continue;
    weights[clamped(i)] += weight;
    sum += weight;
  }
  std::vector<Tap> taps;
  for (const auto& [index, weight] : weights) taps.push_back({index, antialias || inside_only ? weight / sum : weight});
  return taps;
}

/// Sums the taps of all output elements of one axis.
ValueId resize_one(Builder& build, const Op& op, ValueId x, const ResizeAxis& a) {
  const std::string& coordinates = text_of(op, "coordinate_transformation_mode");
  std::vector<std::vector<Tap>> taps;
  Tensor outside(DType::Bool, {a.out});
  size_t most = 0;
  bool any_outside = false;
  for (int64_t i = 0; i < a.out; ++i) {
    const double at = source_position(a, coordinates, i);
    taps.push_back(taps_at(op, a, at));
    most = std::max(most, taps.back().size());
    outside.integers[i] = coordinates == "tf_crop_and_resize" && (at < 0 || at > static_cast<double>(a.in - 1));
    any_outside = any_outside || outside.integers[i];
  }
  Dims column(build.type(x).ndim() - a.axis, 1);
  column[0] = a.out;
  ValueId sum;
  for (size_t t = 0; t < most; ++t) {
    std::vector<int64_t> indices;
    const DType dtype = build.type(x).dtype;
    Tensor weights(is_float(dtype) ? dtype : DType::F32, column);  // nearest integers are not multiplied by weights
    bool all_one = true;
    for (int64_t i = 0; i < a.out; ++i) {
      const bool used = t < taps[i].size();
      indices.push_back(used ? taps[i][t].index : 0);
      weights.real[i] = used ? taps[i][t].weight : 0;
      all_one = all_one && weights.real[i] == 1;
    }
    ValueId term = build.op(OpKind::Gather, {x, build.ints(indices)}, {{"axis", a.axis}, {"inside", int64_t{1}}});
    if (!all_one) term = multiply(build, term, build.constant(weights));
    sum = sum ? add(build, sum, term) : term;
  }
  if (!any_outside) return sum;
  outside.dims = column;
  const Term value = Term(build, build.constant(Tensor::scalar(DType::F64, real_of(op, "extrapolation_value"))));
  const DType dtype = build.type(sum).dtype;
  const Term filled = is_integer(dtype) ? value.saturate(dtype) : value.cast(dtype);
  return build.op(OpKind::Where, {build.constant(outside), filled.value(), sum});
}

/// An axis resized to a given size needs an element to read if the result has any. The condition is recorded here,
/// because type inference replaces the op.
void demand_elements(Module& module, const Op& resize, const std::vector<ResizeAxis>& axes) {
  for (const ResizeAxis& a : axes) {
    if (resize.origins.empty() || !a.has_size || a.from.is_constant() || exact_quotient(a.to, a.from)) continue;
    LengthRelation relation = at_most(minimum(1, a.to), a.from);
    const Origin& node = module.origins[resize.origins[0].index];
    relation.what = format("node '{}' ({})", node.name, node.op_type);
    if (!std::ranges::count(module.relations, relation)) module.relations.push_back(std::move(relation));
  }
}

/// The type of interpolation; for integers, a float that holds them. Mode nearest keeps the operand's type.
DType computed_dtype(const Op& resize, DType dtype) {
  if (is_float(dtype) || text_of(resize, "mode") == "nearest") return dtype;
  return dtype_bytes(dtype) > 2 ? DType::F64 : DType::F32;
}

/// Floats as integers. They saturate, because a cubic may leave the range of its elements. As in ONNX Runtime, they are
/// truncated after plain linear interpolation, and rounded otherwise.
ValueId as_integers(const Op& resize, Term x, DType dtype) {
  const bool is_cut = text_of(resize, "mode") == "linear" && !int_of(resize, "antialias");
  return (is_cut ? x : x.apply(OpKind::Round)).saturate(dtype).value();
}

/// Axis by axis, because the kernels are separable; axes that do not change are skipped.
std::vector<ValueId> decompose_resize(Builder& build, const OpView& op) {
  const std::vector<ResizeAxis> axes = *resize_axes(op);
  const Op& resize = op.op();
  const DType dtype = op.type(0).dtype;
  ValueId x = build.cast(resize.inputs[0], computed_dtype(resize, dtype));
  const Shape shape = op.result_type(0).shape;
  if (element_count(bounds(shape)) == 0) {
    const ValueId none = build.constant(Tensor(dtype, bounds(shape)));
    return {build.with_lengths(none, shape)};
  }
  demand_elements(build.module(), resize, axes);
  for (const ResizeAxis& a : axes) {
    if (a.is_unchanged()) continue;
    x = a.is_run_time() ? resize_length(build, resize, {build, x}, a, shape[a.axis]).value()
                        : resize_one(build, resize, x, a);
  }
  const bool is_interpolated = build.type(x).dtype != dtype && is_integer(dtype);
  return {is_interpolated ? as_integers(resize, {build, x}, dtype) : build.cast(x, dtype)};
}

}  // namespace

std::string nearest_mode(const Op& op, const ResizeAxis& axis) {
  const std::string& mode = text_of(op, "nearest_mode");
  if (mode != kNearestByScale) return mode;
  return axis.scale < 1 ? "ceil" : "floor";
}

const OpDef kResize{
    .kind = OpKind::Resize,
    .name = "Resize",
    .onnx = {"Resize", 7},  // Resize exists from 10 on; before, the same record reads Upsample
    .aliases = {{"Upsample", 7}},
    .attrs = {flag("antialias", 0),
              {"axes", AttrType::Ints},
              choice("coordinate_transformation_mode", "half_pixel",
                     "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric tf_crop_and_resize "
                     "tf_half_pixel_for_nn"),
              {"cubic_coeff_a", AttrType::Real, -0.75},
              flag("exclude_outside", 0),
              {"extrapolation_value", AttrType::Real, 0.0},
              choice("keep_aspect_ratio_policy", "stretch", "stretch not_larger not_smaller"),
              choice("mode", "nearest", "nearest linear cubic"),
              choice("nearest_mode", "round_prefer_floor", "round_prefer_floor round_prefer_ceil floor ceil by_scale"),
              {"roi", AttrType::Reals},
              {"scales", AttrType::Reals},
              {"sizes", AttrType::Ints}},
    .inputs = {1, 4},
    .constant_operands = {{1, "roi", AttrType::Reals}, {2, "scales", AttrType::Reals}, {3, "sizes", AttrType::Ints}},
    .import = import_resize,
    .infer = infer_resize,
    .decompose = decompose_resize,
    .is_typed_by_parts = [](const OpView& op) { return !is_static(op.result_type(0).shape); }};

}  // namespace weftc

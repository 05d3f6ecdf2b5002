// Resizes an axis of run-time length: positions in the input, and the weights of their neighbours, are formulas of the
// lengths.
//
//   linear, half_pixel:   p = (i + 0.5) / scale - 0.5,  w = p - floor(p)
//                         y = Gather(x, floor(p)) * (1 - w)  +  Gather(x, floor(p) + 1) * w
#include <cmath>

#include "ir/ops/resize.h"

namespace weftc {

std::optional<Length> resized_length(const Length& from, double scale) {
  constexpr int64_t kMostParts = 64;
  for (int64_t parts = 1; parts <= kMostParts; parts *= 2) {
    const double times = scale * static_cast<double>(parts);
    if (times == std::floor(times)) return floor_quotient(from * static_cast<int64_t>(times), parts);
  }
  return {};
}

bool resizes_lengths(const OpView& op) {
  const bool is_plain = int_of(op.op(), "antialias") == 0 && int_of(op.op(), "exclude_outside") == 0 &&
                        text_of(op.op(), "coordinate_transformation_mode") != "tf_crop_and_resize" &&
                        text_of(op.op(), "keep_aspect_ratio_policy") == "stretch";
  return is_plain || op.fail("resize-length-unsupported",
                             "a dimension of run-time length is not resized with 'antialias', 'exclude_outside', a "
                             "region or 'keep_aspect_ratio_policy'; pin it with --dim");
}

namespace {

/// The lengths of an axis as numbers of a run.
struct AxisLengths {
  Term in, out, scale;
};

AxisLengths lengths_of_axis(Builder& build, const ResizeAxis& axis) {
  const auto value = [&](const Length& length) { return Term(build, build.length(length)).cast(DType::F64); };
  const Term in = value(axis.from), out = value(axis.to);
  return {in, out, axis.has_size ? out / in : in.scalar(axis.scale)};
}

/// The position in the input of each output element, by the formulas of ONNX's Resize.
Term source_positions(const AxisLengths& axis, const std::string& mode, Term i) {
  const auto& [in, out, scale] = axis;
  if (mode == "align_corners") return i * (in - 1) / (out - 1).apply(OpKind::Max, 1);
  if (mode == "asymmetric") return i / scale;
  const Term center = (i + 0.5) / scale;
  if (mode == "tf_half_pixel_for_nn") return center;
  if (mode == "pytorch_half_pixel") return (out == 1).choose(out.scalar(-0.5), center - 0.5);
  if (mode == "half_pixel_symmetric") return in / 2 * (1 - out / (scale * in)) + center - 0.5;
  return center - 0.5;
}

/// A position between two elements, rounded.
Term nearest_position(Term x, const std::string& mode) {
  if (mode == "floor") return x.floor();
  if (mode == "ceil") return x.apply(OpKind::Ceil);
  if (mode == "round_prefer_ceil") return (x + 0.5).floor();
  return (x - 0.5).apply(OpKind::Ceil);
}

/// Keys' cubic with coefficient `a`, at a distance below 1, and from 1 to 2.
Term near_weight(Term t, double a) { return (t * (a + 2) - (a + 3)) * t * t + 1; }
Term far_weight(Term t, double a) { return ((t * a - 5 * a) * t + 8 * a) * t - 4 * a; }

/// Neighbours of a position: the distance from the one before it, and the weight of each.
std::vector<std::pair<int, Term>> weighted(const Op& op, Term w) {
  if (text_of(op, "mode") == "linear") return {{0, 1 - w}, {1, w}};
  const double a = real_of(op, "cubic_coeff_a");
  return {{-1, far_weight(w + 1, a)}, {0, near_weight(w, a)}, {1, near_weight(1 - w, a)}, {2, far_weight(2 - w, a)}};
}

}  // namespace

Term resize_length(Builder& build, const Op& op, Term x, const ResizeAxis& axis, const Extent& extent) {
  const AxisLengths lengths = lengths_of_axis(build, axis);
  const Term i(build, build.with_lengths(positions(build, DType::F64, axis.out, 0, 1).value(), {extent}));
  const Term at = source_positions(lengths, text_of(op, "coordinate_transformation_mode"), i);
  const auto element = [&](Term position) {
    const Term inside = position.apply(OpKind::Max, 0).apply(OpKind::Min, lengths.in - 1).cast(DType::I64);
    return pick(build, x, inside, axis.axis);
  };
  if (text_of(op, "mode") == "nearest") return element(nearest_position(at, nearest_mode(op, axis)));
  const Term before = at.floor();
  Shape column(x.dims().size() - static_cast<size_t>(axis.axis), Extent{1});
  column[0] = extent;
  std::optional<Term> sum;
  for (const auto& [step, weight] : weighted(op, at - before)) {
    const Term factor(build, build.reshape_to(weight.cast(x.dtype()).value(), column));
    const Term part = element(before + step) * factor;
    sum = sum ? *sum + part : part;
  }
  return *sum;
}

}  // namespace weftc

// Common code of the two ways of resizing: with positions known at compile time (resize.cpp), and with positions that a
// run computes from its lengths (resize_lengths.cpp).
#pragma once
#include "ir/ops/formula.h"

namespace weftc {

/// One resized axis: its extents (bounds), the scale (out / in, as given), and the region of tf_crop_and_resize as
/// fractions.
struct ResizeAxis {
  int64_t axis, in, out;
  double scale, roi_start, roi_end;
  bool has_size;    // by sizes: the scale is the quotient of the lengths
  Length from, to;  // the lengths

  bool is_run_time() const { return !from.is_constant() || !to.is_constant(); }
  bool is_unchanged() const { return from == to && scale == 1 && roi_start == 0 && roi_end == 1; }
};

/// `nearest_mode` before opset 11, which has no such attribute: it depends on the scale.
constexpr const char* kNearestByScale = "by_scale";
/// How a position between two elements is rounded along the axis.
std::string nearest_mode(const Op& op, const ResizeAxis& axis);

/// The number of elements after scaling; nothing if that is not a polynomial.
std::optional<Length> resized_length(const Length& from, double scale);
/// True if the op's attributes allow resizing an axis of run-time length; else reports.
bool resizes_lengths(const OpView& op);
/// Resizes an axis of run-time length to `extent`.
Term resize_length(Builder& build, const Op& op, Term x, const ResizeAxis& axis, const Extent& extent);

}  // namespace weftc

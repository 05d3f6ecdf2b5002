// Images read at places that are computed at run time. Each place is a weighted sum of a few elements for each spatial
// dimension (GridSample, DeformConv, RoiAlign). There is one Gather for each combination of taps, from the image viewed
// as a flat vector, so that one loop computes places, weights and sum:
//
//   y = 1.25, x = 0.5, linear:   taps of y: row 1 (0.75), row 2 (0.25)      taps of x: column 0 (0.5), column 1 (0.5)
//                                result: 0.375 * x[1, 0] + 0.375 * x[1, 1] + 0.125 * x[2, 0] + 0.125 * x[2, 1]
#pragma once
#include "ir/ops/formula.h"

namespace weftc {

/// An element along one dimension. All parts broadcast to the result.
struct SampleTap {
  Term index;                          // i64, within the extent
  std::optional<Term> weight = {};     // none: 1
  std::optional<Term> is_inside = {};  // none: always; otherwise the element counts as 0
};
/// One list of taps for each spatial dimension.
using SampleTaps = std::vector<std::vector<SampleTap>>;

/// The extent of a dimension plus `more`, as a scalar of the dtype of `like`.
Term extent_plus(Builder& build, Term like, const Extent& extent, double more);
/// A computed position, rounded down and clamped to an index of the extent. NaN also becomes an index of the border.
Term border_index(Builder& build, Term position, const Extent& extent);
/// Whether a position, which is an integer, is an index of the extent.
Term is_index(Builder& build, Term position, const Extent& extent);
/// The two neighbours of a position; those outside of the extent count as 0.
std::vector<SampleTap> linear_taps(Builder& build, Term position, const Extent& extent);

/// The weighted elements of x [N, C, spatial dims], before the sum, one Term for each combination of taps. `image` is
/// the position in x of element 0 of the image that a place reads.
std::vector<Term> sampled(Builder& build, Term x, Term image, const SampleTaps& taps);
/// Their sum.
Term sample_sum(Builder& build, Term x, Term image, const SampleTaps& taps);
/// The positions in x [N, C, spatial dims] of all its images, as [N, C] and ones up to `ndim` dimensions.
Term image_positions(Builder& build, const Shape& x, int ndim);

}  // namespace weftc

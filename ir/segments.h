// Positions of the segments of weights in two places. The file of weights holds every slice of each segment. The image
// of a rank holds one slice of each segment that its program has.
//
//   file:  | segment 0 | segment 1, slice 0 | segment 1, slice 1 | ...      every slice begins on a page
//   image: | segment 0 | segment 1, own slice | ...
//
// The declarations of an emitted program name these positions, and pack.h writes the file accordingly.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/plan.h"

namespace weftc {

/// Slices and segments begin at multiples of this, because programs map them from the file.
inline constexpr int64_t kSegmentPage = 4096;

/// Start of a segment among all segments of the Plan; offsets of weights count from there.
int64_t segment_begin(const Plan& plan, size_t segment);
/// Number of different slices of a segment: the product of the sizes of its axes.
int segment_slices(const Plan& plan, const Segment& segment);
/// Start of each segment in the file, and the end of the file.
std::vector<int64_t> segment_files(const Plan& plan);
/// Start of a segment in the image of a rank of the program.
int64_t image_begin(const Plan& plan, const Program& program, size_t segment);
/// Size of that image in bytes: the weights of the program's places.
int64_t image_bytes(const Plan& plan, const Program& program);

}  // namespace weftc

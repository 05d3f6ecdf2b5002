// Sums over the segments of a Plan: a position is the sum of the page-aligned sizes of the segments before it.
#include "ir/segments.h"

#include "ir/plan_walk.h"

namespace weftc {

// The bytes of one slice of a segment, up to the next page.
static int64_t slice_bytes(const Plan& plan, size_t segment) {
  return round_up_to(plan.segments[segment].end - segment_begin(plan, segment), kSegmentPage);
}

int64_t segment_begin(const Plan& plan, size_t segment) {
  return segment ? round_up_to(plan.segments[segment - 1].end, kSegmentPage) : 0;
}

int segment_slices(const Plan& plan, const Segment& segment) {
  int slices = 1;
  for (int axis : segment.axes) slices *= plan.places[segment.place.index].mesh[static_cast<size_t>(axis)].size;
  return slices;
}

std::vector<int64_t> segment_files(const Plan& plan) {
  std::vector<int64_t> files = {0};
  for (size_t s = 0; s < plan.segments.size(); ++s)
    files.push_back(files.back() + segment_slices(plan, plan.segments[s]) * slice_bytes(plan, s));
  return files;
}

int64_t image_begin(const Plan& plan, const Program& program, size_t segment) {
  int64_t at = 0;
  for (size_t s = 0; s < segment; ++s)
    if (holds(plan, program, plan.segments[s].place)) at += slice_bytes(plan, s);
  return at;
}

int64_t image_bytes(const Plan& plan, const Program& program) {
  int64_t end = 0;
  for (size_t s = 0; s < plan.segments.size(); ++s)
    if (holds(plan, program, plan.segments[s].place))
      end = image_begin(plan, program, s) + plan.segments[s].end - segment_begin(plan, s);
  return end;
}

}  // namespace weftc

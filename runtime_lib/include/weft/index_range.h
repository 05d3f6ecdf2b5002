// The indices that a kernel has gone through, for the check that all of them lie in a dimension.
#pragma once
#include <cstdint>

#include "weft/device_macros.h"

namespace weft {

/// The least and the largest of some indices: of none, what lies in a dimension of any length.
struct IndexRange {
  int64_t least = 0, largest = -1;

  WEFT_HD void add(int64_t index) {
    least = index < least ? index : least;
    largest = index > largest ? index : largest;
  }
  /// Negative indices count from the end.
  WEFT_HD bool is_within(int64_t extent) const { return least >= -extent && largest < extent; }
  /// One that is not within.
  WEFT_HD int64_t outside(int64_t extent) const { return largest >= extent ? largest : least; }
};

}  // namespace weft

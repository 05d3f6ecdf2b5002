// The indices that a kernel has gone through, for the check that all of them lie in a dimension.
#pragma once
#include <cstdint>

#include "weft/device_macros.h"

namespace weft {

/// The least and the largest of some indices. Without indices, a range that lies in a dimension of any length.
struct IndexRange {
  int64_t least = 0, largest = -1;

  WEFT_HD void add(int64_t index) {
    least = index < least ? index : least;
    largest = index > largest ? index : largest;
  }
  WEFT_HD bool is_within(int64_t first, int64_t end) const { return least >= first && largest < end; }
  /// One that is not within.
  WEFT_HD int64_t outside(int64_t end) const { return largest >= end ? largest : least; }
};

}  // namespace weft

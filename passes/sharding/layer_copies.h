// Tells how many layers of the model each op stands for, in a graph with only some of them.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/ids.h"

namespace weftc {

/// By op of a graph. If it is empty, every op stands for itself.
struct LayerCopies {
  std::vector<int64_t> times;  // how many layers have an op like this one
  std::vector<bool> is_far;    // it is in a layer that is not next to one that was left out

  int64_t of(OpId id) const { return times.empty() ? 1 : times[id.index]; }
};

}  // namespace weftc

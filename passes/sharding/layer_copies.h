// Where a graph has some of a model's layers: what the others would add.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/ids.h"

namespace weftc {

/// By op of a graph. Without anything in it every op stands for itself.
struct LayerCopies {
  std::vector<int64_t> times;  // how many layers have an op like this one
  std::vector<bool> is_far;    // it is in a layer that is not beside one of those that were left out

  int64_t of(OpId id) const { return times.empty() ? 1 : times[id.index]; }
};

}  // namespace weftc

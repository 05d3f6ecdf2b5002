// Loops that can be one kernel over all their steps.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"

namespace weftc {

/// A Loop whose body is element-wise: each element of the carried values can go through all steps by itself.
struct PointwiseLoop {
  /// By carried value: it holds a row for each step; each step replaces only its own row, and nothing else reads the
  /// value in the loop.
  std::vector<bool> collected;
};

/// Nothing where the loop cannot be one kernel; `why` gives the reason.
std::optional<PointwiseLoop> pointwise_loop(const Module& module, const Graph& graph, OpId loop, std::string& why);

}  // namespace weftc

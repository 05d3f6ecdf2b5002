// Loops that can be one kernel over all their steps.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"

namespace weftc {

/// What is known of a Loop whose body is element-wise: each element of what it carries can go through all steps by
/// itself.
struct PointwiseLoop {
  /// By carried value: it holds a row for each step, of which a step replaces its own, and is read nowhere else.
  std::vector<bool> collected;
};

/// Nothing where the loop cannot be one kernel; `why` says what stands against it.
std::optional<PointwiseLoop> pointwise_loop(const Module& module, const Graph& graph, OpId loop, std::string& why);

}  // namespace weftc

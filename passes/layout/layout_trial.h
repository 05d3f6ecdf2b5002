// What apply-layouts would make of a module under a schedule, for who chooses between schedules.
#pragma once
#include <vector>

#include "passes/layout/layout_requests.h"
#include "passes/pass.h"

namespace weftc {

struct LayoutTrial {
  Graph graph;                // laid out
  std::vector<Layout> found;  // by value of the module's graph: in which layout readers find it; empty after an error
};

/// The module stays as it is. `known`: of a series of trials.
LayoutTrial try_layouts(Module& module, const Env& env, KnownSelections* known = nullptr);

}  // namespace weftc

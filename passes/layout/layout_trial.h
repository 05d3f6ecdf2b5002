// Tries apply-layouts on a module under a schedule, to choose between schedules.
#pragma once
#include <utility>
#include <vector>

#include "passes/layout/layout_requests.h"
#include "passes/pass.h"

namespace weftc {

struct LayoutTrial {
  Graph graph;                // laid out
  std::vector<Layout> found;  // by value of the module's graph: in which layout readers find it; empty after an error
};

/// Leaves the module as it is. `known` is shared by a series of trials.
LayoutTrial try_layouts(Module& module, const Env& env, KnownSelections* known = nullptr);

/// Gives a module of one place another mesh for the lifetime of this object.
class OnMesh {
 public:
  OnMesh(Module& module, const Mesh& mesh)
      : module_(module), before_(std::exchange(module.places.front().mesh, mesh)) {}
  OnMesh(const OnMesh&) = delete;
  ~OnMesh() { module_.places.front().mesh = before_; }

 private:
  Module& module_;
  const Mesh before_;
};

}  // namespace weftc

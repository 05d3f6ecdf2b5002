// What apply-layouts would make of a module under a schedule, for who chooses between schedules.
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

/// The module stays as it is. `known`: of a series of trials.
LayoutTrial try_layouts(Module& module, const Env& env, KnownSelections* known = nullptr);

/// A module of one place has another mesh as long as this lives.
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

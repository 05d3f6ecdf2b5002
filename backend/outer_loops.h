// The outer loops of a nest, and the threads that run their iterations. A team takes ranges of them if there is enough
// work; on a grid threads, warps or blocks take them in turn.
#pragma once
#include "backend/loops.h"

namespace weftc {

/// Loops of an iteration space.
struct OuterLoops {
  std::vector<LoopAxis> axes;
  int64_t work = 1;      // elements inside one iteration of all axes
  int64_t together = 1;  // ranges of a team are multiples of this number
  int64_t vector = 1;    // on a grid: neighbours of the last axis that a thread takes together
};
struct OpenOuter {
  std::vector<std::unique_ptr<Scope>> scopes;
  std::vector<IndexExpr> index;  // by axis
  Scope& inner() { return *scopes.back(); }
};
OpenOuter open_outer(LoopScopes& scopes, const OuterLoops& outer, const Cuts& cuts, KernelContext& context);
void close_outer(LoopScopes& scopes, OpenOuter& open);

}  // namespace weftc

// The layouts in which an op can be computed, and those in which a value can be kept: the choices of a plan (L4, L5 of
// ir/README.md). On each axis of the mesh, an op uses it for one of its loops, or moves one slice as a whole (a view),
// or is computed by all ranks alike:
//
//   MatMul "m k, k n -> m n" on {tp: 2}     tp serves m:  x S(0), w R,    y S(0)
//                                           tp serves n:  x R,    w S(1), y S(1)
//                                           tp serves k:  x S(1), w S(0), y P(sum)
//                                           none:         x R,    w R,    y R
#pragma once
#include <vector>

#include "passes/sharding/slice_candidates.h"

namespace weftc {

/// One way: the layout of each operand (absent ones are replicated), and of each result.
struct OpChoice {
  std::vector<Layout> operands, results;

  bool operator==(const OpChoice&) const = default;
};

/// All ways to compute an op by rules (`is_settled`), the replicated one first; for any other op only that one. Kept
/// entries about operands of readers restrict the choices.
std::vector<OpChoice> op_choices(const Module& module, const Graph& graph, OpId id, const SliceCandidates& slices,
                                 const KeptLayouts& kept);

/// The layouts in which readers may find a value: replicated, and every legal combination of its slices. Results of an
/// op that is not computed by rules are only replicated. A kept entry restricts the choices.
std::vector<Layout> value_choices(const Module& module, const Graph& graph, ValueId value,
                                  const SliceCandidates& slices, const KeptLayouts& kept);

}  // namespace weftc

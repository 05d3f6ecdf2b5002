// The op that one rank runs: attributes with global positions are converted to positions of the rank's own elements.
#pragma once
#include "ir/module.h"

namespace weftc {

/// Converts `op` for the rank at `coordinates` (of the place, then of the time axes), to run on local tensors:
/// boundaries of Slice and Pad, shapes of Reshape, Expand and the like. Run-time lengths stay at their bounds.
Op localize(const Module& module, const Graph& graph, const Op& op, const Coordinates& coordinates);
/// True if localize changes anything: an operand or result is sliced and the op has attributes with global positions.
bool needs_localize(const Graph& graph, const Op& op);
/// The place of a value's locals: its producer's, or for an op without one (a Chunk around several places) the place of
/// the region's output.
PlaceId place_of(const Graph& graph, ValueId value);

}  // namespace weftc

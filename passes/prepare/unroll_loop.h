// Unrolls a Loop whose trips have different types (a sequence that grows, a tensor that is concatenated to).
#pragma once
#include "passes/prepare/unfold_sequences.h"

namespace weftc {

/// True if a Loop carries a value that is no tensor, or nothing: then it can only be written out.
bool carries_unfolded(const Graph& graph, const UnfoldedValues& values, OpId id);
/// True if a node in the graph draws random numbers, which depend on the trip of its loop.
bool draws(const Graph& graph);
/// True if a Loop is known to have few enough trips, and draws no random numbers.
bool may_unroll(const Module& module, const Graph& graph, OpId id);
/// Replaces a Loop by its trips, each typed before the next is written. False after reporting.
bool unroll_loop(const TypedGraph& in, OpId id);

}  // namespace weftc

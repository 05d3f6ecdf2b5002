// Values of a graph that share memory, outside of kernels. A Reshape there is its operand's memory under another shape.
// A Reshape that keeps the shape is a copy with memory of its own.
#pragma once
#include "ir/graph.h"

namespace weftc {

/// True if the op copies its operand: a Reshape to the type that the operand already has.
bool is_copy(const Graph& graph, const Op& op);
/// The value whose memory a value shares: the operand of the first in its chain of Reshapes.
ValueId memory_of(const Graph& graph, ValueId value);

/// Whether a Reshape moves no element if both shapes are stored by bounds (passes/plan/lay_lengths.cpp).
bool is_same_by_bounds(const Shape& from, const Shape& to);

}  // namespace weftc

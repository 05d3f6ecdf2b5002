// Which values of a graph share memory, outside of kernels: a Reshape there is its operand's memory under another
// shape, and a Reshape that keeps the shape is a copy, which has memory of its own.
#pragma once
#include "ir/graph.h"

namespace weftc {

/// True if the op copies its operand: a Reshape to the type that the operand has already.
bool is_copy(const Graph& graph, const Op& op);
/// The value that a value shares its memory with: the operand of the first of the Reshapes it is made by.
ValueId memory_of(const Graph& graph, ValueId value);

/// Whether a Reshape moves no element where both shapes lie by bounds (passes/plan/lay_lengths.cpp).
bool is_same_by_bounds(const Shape& from, const Shape& to);

}  // namespace weftc

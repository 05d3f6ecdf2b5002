// Tells which values a kernel makes for itself as it loads, and which must lie in memory.
#pragma once
#include "ir/op_def.h"

namespace weftc {

/// The category of a kernel with this body.
Category kernel_category(const Graph& body);

/// A view that a reader applies while loading: recomputing it costs nothing.
bool is_load_view(const Op& op);
/// A constant of one element, which becomes a literal in a kernel.
bool is_literal(const Graph& graph, const Op& op);
/// A value without operands that a kernel computes wherever it reads it: an index pattern, a run-time length.
inline bool is_pattern(const Op& op) { return op.kind == OpKind::Iota || op.kind == OpKind::LengthOf; }
/// True if other ranks read a value of a kernel's body, through views and casts. For a body of steps: true if an op
/// that is no kernel does.
bool is_exchanged(const Graph& body, ValueId v, bool in_kernel = true);
/// True if an op outside of kernels, or a kernel, takes a constant as this operand; else it must lie in a buffer.
bool reads_weights(const Op& op, size_t input);

}  // namespace weftc

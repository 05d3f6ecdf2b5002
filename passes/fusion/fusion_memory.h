// Decides, before any group is formed, which values of a graph must lie in memory whatever is fused. These are the
// values that a collective, a transfer, a branch or loop, or the graph's outputs read.
//
//   y = Transpose(x); z = Add(y, b)     y is recomputed by the kernel of z while it loads x: no memory
//   y = Transpose(x); AllReduce(y)      an all-reduce reads memory: y is stored, by a kernel that copies
//   y = Reshape(x);   AllReduce(y)      the same memory as x under another shape: an alias, nobody copies
//
// If x is stored by the bounds of its run-time lengths (states, and values that are sent or exchanged by strides) but y
// is dense, a kernel copies.
#pragma once
#include <vector>

#include "ir/module.h"

namespace weftc {

/// The decisions for each op, by op index.
struct FusionMemory {
  std::vector<bool> stored;  // a view or pattern whose result must lie in memory
  std::vector<bool> alias;   // a stored Reshape that is its operand's memory under another shape
  std::vector<int> node_of;  // number of the op in the graph of kernels, in topological order; -1: it has no number,
                             // because it is a source or each kernel that reads it computes it while loading
  int nodes = 0;             // how many numbers were given
};

/// `region`: the graph is the body of another op, whose results need memory of their own.
FusionMemory decide_memory(const Module& module, const Graph& graph, const std::vector<OpId>& order, bool region);

}  // namespace weftc

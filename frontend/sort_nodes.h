// The order of nodes in a graph: ONNX wants it topological, and tools that edit models often leave it otherwise.
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx_model.h"

namespace weft {

/// The names that subgraphs take from outside, in order of first use. Their nodes are sorted.
std::vector<std::string> free_names(const std::vector<const OnnxGraph*>& graphs);

/// Puts the nodes of a graph and of its subgraphs behind what they read; nodes that need not move keep their order. Nodes
/// of a cycle, and what depends on them, come last: the importer reports them.
void sort_nodes(OnnxGraph& graph);

}  // namespace weft

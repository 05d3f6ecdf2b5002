// ONNX demands that the nodes of a graph are in topological order and that one node makes each value. Tools
// that edit models often break this: here the nodes are put in order, and of several Constant nodes with one
// name the last one counts.
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx_model.h"

namespace weftc {

/// The names that subgraphs take from outside, in order of first use. Their nodes are sorted.
std::vector<std::string> free_names(const std::vector<const OnnxGraph*>& graphs);

/// Puts the nodes of a graph and of its subgraphs behind what they read; nodes that need not move keep their order.
/// Nodes of a cycle, and what depends on them, come last: the importer reports them.
void sort_nodes(OnnxGraph& graph);

/// Tools that merge models leave several Constant nodes of one name behind; ONNX Runtime lets the last one count for
/// all readers, and so do we, with a warning.
void drop_repeated_constants(const OnnxModel& model, OnnxGraph& graph, Diags& diags);

}  // namespace weftc

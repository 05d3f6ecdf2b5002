// ONNX demands that the nodes of a graph are in topological order and that one node produces each value. Tools that
// edit models often break this. Nodes are sorted here, and of several Constant nodes with one name the last one is
// used.
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx_model.h"

namespace weftc {

/// The names that subgraphs read from outside, in order of first use. Their nodes are sorted.
std::vector<std::string> free_names(const std::vector<const OnnxGraph*>& graphs);

/// Moves the nodes of a graph and of its subgraphs after the producers of their inputs; other nodes keep their order.
/// Nodes of a cycle, and nodes that depend on them, come last: the importer reports them.
void sort_nodes(OnnxGraph& graph);

/// Tools that merge models leave several Constant nodes of one name. As in ONNX Runtime, all readers get the last one;
/// a warning reports it.
void drop_repeated_constants(const OnnxModel& model, OnnxGraph& graph, Diags& diags);

}  // namespace weftc

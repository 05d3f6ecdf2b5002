// Calls of one function create equal nodes, such as the constants of an optimizer.
#pragma once
#include "frontend/onnx_model.h"

namespace weftc {

/// Merges nodes added for a schedule that compute the same results from the same operands, except nodes that draw
/// random numbers or hold tensors or graphs. Nodes of the model keep their names.
void share_equal_nodes(OnnxGraph& graph);

}  // namespace weftc

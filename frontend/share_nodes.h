// Calls of one function bring equal nodes, such as the constants of an optimizer.
#pragma once
#include "frontend/onnx_model.h"

namespace weftc {

/// Nodes that a schedule asks for and that compute the same of the same become one, but for those that draw random
/// numbers or hold tensors or graphs. Those of the model keep their names.
void share_equal_nodes(OnnxGraph& graph);

}  // namespace weftc

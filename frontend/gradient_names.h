// Gradient of ai.onnx.preview.training names its values in attributes.
#pragma once
#include "frontend/onnx_model.h"
#include "ir/base/diag.h"

namespace weftc {

/// Makes the differentiated result the last operand of each Gradient, so that all later code sees the node's inputs.
/// False after reporting a Gradient in a subgraph, or one at other values than those that the model computes with.
bool name_gradients(OnnxModel& model, Diags& diags);

}  // namespace weftc

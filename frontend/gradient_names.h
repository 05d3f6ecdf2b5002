// Gradient of ai.onnx.preview.training names the values that it is about in attributes.
#pragma once
#include "frontend/onnx_model.h"
#include "ir/base/diag.h"

namespace weftc {

/// Makes the result that is differentiated the last operand of each Gradient, so that all behind the reader sees what
/// the node reads. False after reporting a Gradient in a subgraph, or at other values than
/// those that the model computes with.
bool name_gradients(OnnxModel& model, Diags& diags);

}  // namespace weftc

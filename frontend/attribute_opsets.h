// Attributes that an operator has in some opsets only.
#pragma once
#include "frontend/onnx_model.h"
#include "ir/base/diag.h"

namespace weftc {

/// Reports each attribute that its operator lacks in the node's opset, although a record reads it from another one.
/// `trains`: a training has put nodes into training mode, for which opsets before 14 have no attribute.
bool check_attribute_opsets(const OnnxModel& model, bool trains, Diags& diags);

}  // namespace weftc

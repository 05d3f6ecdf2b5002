// Model-local functions: calls are replaced by the functions' bodies before the graph is read further.
#pragma once
#include "frontend/onnx_model.h"

namespace weftc {

/// Replaces every call, also inside bodies and subgraphs. Names of a body are prefixed with the call's name and "/".
/// References to the function's attributes become the call's values or the defaults. Nodes of a body keep the opsets
/// that the function imports. False after reporting (recursion, too many operands, an explosion).
bool inline_functions(OnnxModel& model, Diags& diags);

}  // namespace weftc

// Send and Recv of ONNX Runtime's training domain, if one model has both ends.
#pragma once
#include "frontend/onnx_model.h"
#include "ir/base/diag.h"

namespace weftc {

/// A Recv returns the values of the Send with the same tag: both become Identity nodes. The schedule's stages decide
/// their ranks, and a value that crosses stages becomes a Transfer. Nodes without another end stay. If each rank runs
/// the whole model (`per_rank`), sender and receiver cannot be told apart. False after reporting.
bool join_messages(OnnxModel& model, bool per_rank, Diags& diags);

}  // namespace weftc

// Send and Recv of ONNX Runtime's training domain, where one model has both ends.
#pragma once
#include "frontend/onnx_model.h"
#include "ir/base/diag.h"

namespace weftc {

/// What a Recv gives is what the Send of the same tag was given: both become Identity nodes. Which ranks they are on is
/// for the schedule's stages to say, and what crosses between these is a Transfer. Nodes that have no other end stay.
/// Where each rank runs all of the model (`per_rank`), it cannot tell sender from receiver. False after reporting.
bool join_messages(OnnxModel& model, bool per_rank, Diags& diags);

}  // namespace weftc

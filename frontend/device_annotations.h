// Device annotations of ONNX (IR 11 and later) as schedule data: mesh, layouts, stages. They never change what a model
// computes; what the schedule file says of the same things must agree.
#pragma once
#include "frontend/onnx_model.h"
#include "ir/schedule.h"

namespace weftc {

/// Adds what the nodes say of the configuration that `schedule.annotations` names, or of the model's only one. False
/// after reporting.
bool read_annotations(const OnnxModel& model, Schedule& schedule, Diags& diags);

}  // namespace weftc

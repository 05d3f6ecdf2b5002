// Device annotations of ONNX (IR 11 and later) as schedule data: mesh, layouts, stages. They never change the results
// of a model; entries of the schedule file must agree with them.
#pragma once
#include "frontend/onnx_model.h"
#include "ir/schedule.h"

namespace weftc {

/// Adds the nodes' annotations for the configuration that `schedule.annotations` names, or for the model's only one.
/// False after reporting.
bool read_annotations(const OnnxModel& model, Schedule& schedule, Diags& diags);

}  // namespace weftc

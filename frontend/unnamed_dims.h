// Dims of inputs whose names show that the exporter had no name for them.
#pragma once
#include "frontend/onnx_model.h"

namespace weftc {

/// Removes the names of dims called "?", "-1", "None", and generated names ("unk__7") that several dims have: equal
/// names would make these one dim.
void unname_dims(OnnxModel& model);

}  // namespace weftc

// Dims of inputs whose names show that the exporter had no name for them.
#pragma once
#include "frontend/onnx_model.h"

namespace weftc {

/// Takes the names away from dims called "?", "-1", "None", or by a made name ("unk__7") that several dims have: equal
/// names would make them one dim.
void unname_dims(OnnxModel& model);

}  // namespace weftc

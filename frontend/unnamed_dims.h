// Dims of inputs whose names say that the exporter knew none.
#pragma once
#include "frontend/onnx_model.h"

namespace weftc {

/// Takes the names away from dims called "?", "-1", "None", or by a made name ("unk__7") that several dims have: equal
/// names would make them one dim.
void unname_dims(OnnxModel& model);

}  // namespace weftc

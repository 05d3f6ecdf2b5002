// Notes of PyTorch's exporter in a file: the initialisers that are parameters or buffers, and the values that it
// computed in advance.
#pragma once
#include <string>
#include <string_view>

#include "frontend/onnx_model.h"

namespace weftc {

/// Reads an entry of a value's metadata, if it is one of these notes.
void mark_value(OnnxModel& model, const std::string& value, std::string_view key, std::string_view text);
/// The same for a graph's or a model's metadata, which may have the signature of the whole program. A value's own notes
/// take precedence.
void mark_by_signature(OnnxModel& model, std::string_view key, std::string_view text);

}  // namespace weftc

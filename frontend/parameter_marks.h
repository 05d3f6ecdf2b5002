// What PyTorch's exporter notes in a file: which initialisers are parameters, which ones buffers, and what it computed
// in advance.
#pragma once
#include <string>
#include <string_view>

#include "frontend/onnx_model.h"

namespace weftc {

/// Takes an entry of a value's metadata, if it is one of these notes.
void mark_value(OnnxModel& model, const std::string& value, std::string_view key, std::string_view text);
/// The same of a graph's or a model's metadata, where the signature of the whole program may be. What a value itself
/// says counts more.
void mark_by_signature(OnnxModel& model, std::string_view key, std::string_view text);

}  // namespace weftc

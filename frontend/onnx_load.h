// A model file as plain data, the first step of reading and inspecting a model.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "frontend/onnx_model.h"

namespace weftc {

/// The model of an .onnx or .onnxtxt file. Nothing after reporting.
std::optional<OnnxModel> load_model(const std::string& path, Diags& diags);
/// Gives every node the opset of its domain. Returns the domains of nodes that the model does not import, which get
/// version 1.
std::vector<std::string> resolve_opsets(OnnxModel& model);

}  // namespace weftc

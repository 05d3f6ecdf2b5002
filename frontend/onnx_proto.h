// Binary ONNX files: the one place that knows protobuf.
#pragma once
#include <optional>
#include <string>

#include "frontend/onnx_model.h"

namespace weftc {

/// Reads a .onnx file; nothing after reporting.
std::optional<OnnxModel> read_onnx_binary(const std::string& path, Diags& diags);
/// One serialised TensorProto (input_0.pb of ONNX test data). The tensor's bytes live in `memory`.
std::optional<OnnxTensor> read_tensor_proto(const std::string& path, OnnxModel& memory, Diags& diags);

}  // namespace weftc

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
/// The tensors of a serialised SequenceProto or OptionalProto, whichever the port is. Their bytes live in `memory`.
std::optional<std::vector<OnnxTensor>> read_tensors_proto(const std::string& path, const OnnxForm& form,
                                                          OnnxModel& memory, Diags& diags);

}  // namespace weftc

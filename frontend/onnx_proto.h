// Binary ONNX files: the one place that knows protobuf.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontend/onnx_model.h"
#include "ir/base/diag.h"

namespace weftc {

/// Reads a .onnx file; nothing after reporting.
std::optional<OnnxModel> read_onnx_binary(const std::string& path, Diags& diags);
/// The bytes that take the place of an initialiser's, as many; none: it stays as it is. May report.
using NewBytes = std::function<std::optional<std::vector<std::byte>>(const OnnxTensor& initialiser)>;
/// Writes the model of a binary file again, with other values of its initialisers. What else is in the file stays as it
/// is; where initialisers lie outside of it, those of the new one lie in a file beside it, TO.data. False after
/// reporting.
bool write_onnx_with(const std::string& path, const NewBytes& new_bytes, const std::string& to, Diags& diags);
/// One serialised TensorProto (input_0.pb of ONNX test data). The tensor's bytes live in `memory`.
std::optional<OnnxTensor> read_tensor_proto(const std::string& path, OnnxModel& memory, Diags& diags);
/// The tensors of a serialised SequenceProto or OptionalProto, whichever the port is. Their bytes live in `memory`.
std::optional<std::vector<OnnxTensor>> read_tensors_proto(const std::string& path, const OnnxForm& form,
                                                          OnnxModel& memory, Diags& diags);

}  // namespace weftc

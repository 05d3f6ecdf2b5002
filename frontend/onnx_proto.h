// Binary ONNX files: the only code that includes protobuf.
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
/// Returns the new bytes of an initialiser, of the same number; none: it keeps its bytes. May report.
using NewBytes = std::function<std::optional<std::vector<std::byte>>(const OnnxTensor& initialiser)>;
/// Writes the model of a binary file again, with other values of its initialisers. The rest of the file stays the same.
/// If its initialisers are in an external file, the new ones are written next to the new model, to TO.data. False after
/// reporting.
bool write_onnx_with(const std::string& path, const NewBytes& new_bytes, const std::string& to, Diags& diags);
/// One serialised TensorProto (input_0.pb of ONNX test data). `memory` owns the tensor's bytes.
std::optional<OnnxTensor> read_tensor_proto(const std::string& path, OnnxModel& memory, Diags& diags);
/// The tensors of a serialised SequenceProto or OptionalProto, depending on the port. `memory` owns their bytes.
std::optional<std::vector<OnnxTensor>> read_tensors_proto(const std::string& path, const OnnxForm& form,
                                                          OnnxModel& memory, Diags& diags);

}  // namespace weftc

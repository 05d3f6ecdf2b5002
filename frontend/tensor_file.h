// Tensors in files: .npy and ONNX's .pb, as bound inputs and as verification data.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "frontend/onnx_model.h"
#include "ir/base/diag.h"
#include "ir/tensor.h"

namespace weftc {

/// Reads FILE.npy or FILE.pb (a TensorProto), by the name's ending; nothing after reporting.
std::optional<Tensor> read_tensor_file(const std::string& path, Diags& diags);
/// The tensors in a FILE.pb of a sequence or optional; nothing after reporting.
std::optional<std::vector<Tensor>> read_tensors_file(const std::string& path, const OnnxForm& form, Diags& diags);
/// Writes version 1.0, C order, little endian; bf16 as bit patterns in u16. False after reporting.
bool write_npy(const std::string& path, const Tensor& tensor, Diags& diags);

/// .npy supports neither bf16 nor the types of at most 8 bits that NumPy lacks: bit patterns of the same width become
/// elements of the type `wanted`. False if `tensor` has another type.
bool read_as(Tensor& tensor, DType wanted);

}  // namespace weftc

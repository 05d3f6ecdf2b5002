// Checked bytes of a model's tensors, also of those in external files.
#pragma once
#include <optional>
#include <span>
#include <unordered_map>

#include "frontend/onnx_model.h"

namespace weftc {

/// Finds the bytes of tensors. External files are mapped once, opened beneath the model's folder only.
class TensorBytes {
 public:
  TensorBytes(OnnxModel& model, Diags& diags) : model_(model), diags_(diags) {}

  /// The bytes of `tensor` in a Tensor's form, of the length that dims and element type require; nothing after
  /// reporting. `what` names it in messages: "initializer 'w'".
  std::optional<std::span<const std::byte>> find(const OnnxTensor& tensor, const std::string& what, const Loc& loc);

 private:
  std::optional<std::span<const std::byte>> stored(const OnnxTensor& tensor, int64_t needed, const std::string& what,
                                                   const Loc& loc);
  std::optional<std::span<const std::byte>> external(const OnnxTensor& tensor, int64_t needed, const std::string& what,
                                                     const Loc& loc);
  std::optional<std::span<const std::byte>> file(const std::string& location, const std::string& what, const Loc& loc);

  OnnxModel& model_;
  Diags& diags_;
  std::unordered_map<std::string, std::span<const std::byte>> files_;
};

/// Packs elements that have a byte each (fewer than 8 bits) as in ONNX files; bytes of other types are unchanged.
std::vector<std::byte> packed_as_in_files(DType dtype, std::vector<std::byte> bytes);

/// The largest element count of one tensor.
inline constexpr int64_t kMostElements = int64_t{1} << 40;
/// Elements of a tensor of these dims; nothing if a dim is negative or there are more than kMostElements.
std::optional<int64_t> checked_count(const Dims& dims);

}  // namespace weftc

// Owns the bytes of constants that passes compute, and refers to bytes in a file mapping.
#include "ir/constants.h"

namespace weftc {

ConstantId Constants::add(std::string name, const Tensor& tensor) {
  return add(std::move(name), tensor.dtype, tensor.dims, tensor_to_bytes(tensor));
}

ConstantId Constants::add(std::string name, DType dtype, Dims dims, std::vector<std::byte> bytes) {
  owned_.push_back(std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
  return add_view(std::move(name), dtype, std::move(dims), *owned_.back());
}

ConstantId Constants::add_view(std::string name, DType dtype, Dims dims, std::span<const std::byte> bytes) {
  constants_.push_back({std::move(name), dtype, std::move(dims), bytes});
  return {static_cast<uint32_t>(constants_.size() - 1)};
}

Tensor Constants::tensor(ConstantId id) const {
  const Constant& c = constants_[id.index];
  return tensor_from_bytes(c.dtype, c.dims, c.bytes);
}

}  // namespace weftc

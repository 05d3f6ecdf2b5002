// Host tensors of a module: bytes mapped from a file or owned. Weights of gigabytes stay in the file mapping: a
// constant is a view of bytes, and only folding makes tensors of it.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/ids.h"
#include "ir/tensor.h"

namespace weftc {

/// One tensor, known at compile time.
struct Constant {
  std::string name;  // the initialiser's name, or the producing node's
  DType dtype;
  Dims dims;
  std::span<const std::byte> bytes;  // row-major, little endian; into `owned` or a mapping of Constants

  int64_t count() const { return element_count(dims); }
};

class Constants {
 public:
  ConstantId add(std::string name, const Tensor& tensor);
  ConstantId add(std::string name, DType dtype, Dims dims, std::vector<std::byte> bytes);
  /// `bytes` must be in memory that was passed to keep().
  ConstantId add_view(std::string name, DType dtype, Dims dims, std::span<const std::byte> bytes);
  /// Keeps memory (a file mapping, a parsed model) alive as long as the module and its copies.
  void keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }

  const Constant& operator[](ConstantId id) const { return constants_[id.index]; }
  size_t size() const { return constants_.size(); }
  /// The elements converted for evaluation; large constants cost memory here.
  Tensor tensor(ConstantId id) const;

 private:
  std::vector<Constant> constants_;
  std::vector<std::shared_ptr<const std::vector<std::byte>>> owned_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace weftc

// Finds the bytes of a tensor and checks them against its shape. Sizes from a file are validated only here.
#include "frontend/tensor_bytes.h"

#include <charconv>

#include "frontend/mapped_file.h"
#include "ir/tensor.h"

namespace weftc {

std::optional<int64_t> checked_count(const Dims& dims) {
  // Other dims are checked even if one is zero: large ones would overflow the computation of strides.
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0 || dim > kMostElements) return {};
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (count > kMostElements / dim) return {};
    count *= dim;
  }
  return empty ? 0 : count;
}

/// Unpacks to one byte for each element of fewer than 8 bits. Elements are packed without gaps, the first in the low
/// bits of the first byte; one of 6 bits may begin in one byte and end in the next.
static std::vector<std::byte> unpacked(DType dtype, int64_t count, std::span<const std::byte> packed) {
  const auto bits = static_cast<size_t>(onnx_bits(dtype));
  const auto byte = [&](size_t at) { return std::to_integer<int>(packed[at]); };
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t at = i * bits / 8, first = i * bits % 8;
    const int held = first + bits > 8 ? byte(at) | byte(at + 1) << 8 : byte(at);
    const int code = held >> first & ((1 << bits) - 1);
    const bool is_code = is_float(dtype);  // an integer's byte holds its value
    bytes[i] = static_cast<std::byte>(is_code ? code : static_cast<int>(wrap(dtype, code)));
  }
  return bytes;
}

std::vector<std::byte> packed_as_in_files(DType dtype, std::vector<std::byte> bytes) {
  const auto bits = static_cast<size_t>(onnx_bits(dtype));
  if (bits >= 8) return bytes;
  std::vector<std::byte> packed((bytes.size() * bits + 7) / 8);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t at = i * bits / 8, first = i * bits % 8;
    const std::byte code = bytes[i] & std::byte((1 << bits) - 1);
    packed[at] |= code << first;
    if (first + bits > 8) packed[at + 1] |= code >> (8 - first);
  }
  return packed;
}

std::optional<std::span<const std::byte>> TensorBytes::find(const OnnxTensor& tensor, const std::string& what,
                                                            const Loc& loc) {
  const std::optional<DType> dtype = dtype_of_element_type(tensor.element_type);
  if (!dtype) {
    diags_.error("tensor-type-unsupported", loc, "{} has element type {}, which is not supported", what,
                 element_type_name(tensor.element_type));
    return {};
  }
  const std::optional<int64_t> count = checked_count(tensor.dims);
  if (!count) {
    diags_.error("tensor-dims", loc, "{} has shape {}: extents must be 0 or more, and elements at most 2^40", what,
                 dims_text(tensor.dims));
    return {};
  }
  if (!tensor.problem.empty()) {
    diags_.error("tensor-data", loc, "{} {}", what, tensor.problem);
    return {};
  }
  const std::optional<std::span<const std::byte>> bytes = stored(tensor, onnx_bytes(*dtype, *count), what, loc);
  if (!bytes || onnx_bits(*dtype) >= 8) return bytes;
  return model_.keep(unpacked(*dtype, *count, *bytes));
}

std::optional<std::span<const std::byte>> TensorBytes::stored(const OnnxTensor& tensor, int64_t needed,
                                                              const std::string& what, const Loc& loc) {
  if (tensor.external) return external(tensor, needed, what, loc);
  if (static_cast<int64_t>(tensor.bytes.size()) != needed) {
    diags_.error("tensor-size", loc, "{} holds {} bytes, but {} of shape {} needs {}", what, tensor.bytes.size(),
                 element_type_name(tensor.element_type), dims_text(tensor.dims), needed);
    return {};
  }
  return tensor.bytes;
}

/// Parses a number from 0 to 2^62; nothing for other texts. Empty text is `otherwise`.
static std::optional<int64_t> number(const std::string& text, int64_t otherwise) {
  if (text.empty()) return otherwise;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > (int64_t{1} << 62)) return {};
  return value;
}

std::optional<std::span<const std::byte>> TensorBytes::external(const OnnxTensor& tensor, int64_t needed,
                                                                const std::string& what, const Loc& loc) {
  const ExternalBytes& where = *tensor.external;
  const std::optional<int64_t> offset = number(where.offset, 0), length = number(where.length, needed);
  if (!offset || !length) {
    diags_.error("external-number", loc, "{}: offset '{}' or length '{}' of its external data is no byte count", what,
                 printable(where.offset), printable(where.length));
    return {};
  }
  if (*length != needed) {
    diags_.error("external-length", loc, "{}: its external data has {} bytes, but {} of shape {} needs {}", what,
                 *length, element_type_name(tensor.element_type), dims_text(tensor.dims), needed);
    return {};
  }
  const std::optional<std::span<const std::byte>> bytes = file(where.location, what, loc);
  if (!bytes) return {};
  if (*offset + needed > static_cast<int64_t>(bytes->size())) {
    diags_.error("external-bounds", loc, "{}: bytes {} to {} lie outside '{}', which has {}", what, *offset,
                 *offset + needed, printable(where.location), bytes->size());
    return {};
  }
  return bytes->subspan(*offset, needed);
}

std::optional<std::span<const std::byte>> TensorBytes::file(const std::string& location, const std::string& what,
                                                            const Loc& loc) {
  if (const auto known = files_.find(location); known != files_.end()) return known->second;
  MappedFile mapped = map_beneath(model_.file, location);
  if (!mapped.error.empty()) {
    diags_.error("external-file", loc, "{}: external data file '{}' is refused or cannot be read: {}", what,
                 printable(location), mapped.error);
    return {};
  }
  files_[location] = mapped.bytes;
  if (mapped.memory) model_.memory.push_back(std::move(mapped.memory));
  return mapped.bytes;
}

}  // namespace weftc

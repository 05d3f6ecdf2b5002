// .npy files: strict reading by mapping, conversion where no value changes, writing. Types that .npy lacks are stored
// as unsigned bit patterns of their width.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "failure.h"
#include "npy_elements.h"
#include "npy_header.h"
#include "weft/numeric.h"

namespace weft {

/// The bytes of a .npy file, little endian and exactly as many as its header says. They are used in place, or converted
/// if the elements are stored in another form (npy_elements.h).
class NpyArray {
 public:
  /// Provides elements of type `dtype`. Throws Failure (wrong input), which names `source`, if a value would change.
  NpyArray(std::string_view bytes, DType dtype, const std::string& source);

  const std::vector<int64_t>& shape() const { return header_.shape; }
  /// In C order.
  const char* data() const { return converted_.empty() ? bytes_.data() + header_.data_offset : converted_.data(); }

 private:
  std::string_view bytes_;
  NpyHeader header_;
  std::vector<char> converted_;
};

/// A file that is mapped for as long as this object exists.
class FileMapping {
 public:
  explicit FileMapping(const std::string& file);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

/// A mapped .npy file.
class NpyFile {
 public:
  NpyFile(const std::string& file, DType dtype) : mapping_(file), array_(mapping_.bytes(), dtype, file) {}

  const std::vector<int64_t>& shape() const { return array_.shape(); }
  const char* data() const { return array_.data(); }

 private:
  FileMapping mapping_;
  NpyArray array_;
};

/// The header of a .npy file with elements of this type. Not for strings, whose type in the file includes their length.
std::string npy_head(DType dtype, const std::vector<int64_t>& shape, Bfloat16Form form = Bfloat16Form::Bits);
/// A whole .npy file in two parts.
class NpyParts {
 public:
  NpyParts(DType dtype, const std::vector<int64_t>& shape, const char* data, Bfloat16Form form = Bfloat16Form::Bits);
  const std::string& head() const { return head_; }
  std::string_view elements() const { return converted_ ? std::string_view(*converted_) : elements_; }

 private:
  std::string head_;
  std::string_view elements_;
  std::optional<std::string> converted_;  // strings
};
/// Bytes of the elements of a whole tensor.
int64_t tensor_bytes(DType dtype, const std::vector<int64_t>& shape);
void write_npy(const std::string& file, DType dtype, const std::vector<int64_t>& shape, const char* data,
               Bfloat16Form form = Bfloat16Form::Bits);

}  // namespace weft

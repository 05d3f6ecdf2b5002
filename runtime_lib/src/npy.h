// .npy files: strict reading by mapping, writing. Types that .npy lacks travel as unsigned bit patterns of their width.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "failure.h"
#include "weft/numeric.h"

namespace weft {

/// "2x64x256"; "scalar" without dimensions.
std::string shape_text(const std::vector<int64_t>& shape);

/// The header of a .npy file, checked for form, and where the elements begin.
struct NpyHeader {
  std::string descr;
  std::vector<int64_t> shape;
  int64_t data_offset = 0;
};

/// Reads the header at the beginning of a file's bytes; throws Failure (wrong input) that names `file`.
NpyHeader parse_npy(std::string_view bytes, const std::string& file);

/// A mapped .npy file of C order, little endian, exactly as long as its header says.
class NpyFile {
 public:
  /// Also checks the element type.
  NpyFile(const std::string& file, DType dtype);
  ~NpyFile();
  NpyFile(const NpyFile&) = delete;
  NpyFile& operator=(const NpyFile&) = delete;

  const std::vector<int64_t>& shape() const { return header_.shape; }
  const char* data() const { return bytes_.data() + header_.data_offset; }

 private:
  std::string_view bytes_;
  NpyHeader header_;
};

void write_npy(const std::string& file, DType dtype, const std::vector<int64_t>& shape, const char* data);

}  // namespace weft

// .npy files: strict reading by mapping, conversion where no value changes, writing. Types that .npy lacks travel as
// unsigned bit patterns of their width.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "failure.h"
#include "npy_elements.h"
#include "npy_header.h"
#include "weft/numeric.h"

namespace weft {

/// A .npy file, little endian and exactly as long as its header says: mapped where its elements are stored as they are
/// needed, else converted (npy_elements.h).
class NpyFile {
 public:
  /// Elements of type `dtype` are needed. Throws Failure (wrong input) where a value would change.
  NpyFile(const std::string& file, DType dtype);
  ~NpyFile();
  NpyFile(const NpyFile&) = delete;
  NpyFile& operator=(const NpyFile&) = delete;

  const std::vector<int64_t>& shape() const { return header_.shape; }
  /// In C order.
  const char* data() const { return converted_.empty() ? bytes_.data() + header_.data_offset : converted_.data(); }

 private:
  std::string_view bytes_;
  NpyHeader header_;
  std::vector<char> converted_;
};

void write_npy(const std::string& file, DType dtype, const std::vector<int64_t>& shape, const char* data,
               Bfloat16Form form = Bfloat16Form::Bits);

}  // namespace weft

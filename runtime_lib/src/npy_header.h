// The header of a .npy file: the type, order and shape of its elements.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// "2x64x256"; "scalar" without dimensions.
std::string shape_text(const std::vector<int64_t>& shape);

/// The header of a .npy file, checked for form, and where the elements begin.
struct NpyHeader {
  std::string descr;
  bool is_fortran = false;
  std::vector<int64_t> shape;
  int64_t data_offset = 0;
};

/// Reads the header at the beginning of a file's bytes; throws Failure (wrong input) that names `file`.
NpyHeader parse_npy(std::string_view bytes, const std::string& file);

}  // namespace weft

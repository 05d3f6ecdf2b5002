// Strings in .npy files (`<U12`): NumPy stores each as a fixed number of code points of 4 bytes, padded with zeros.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "npy_header.h"
#include "weft/string.h"

namespace weft {

/// Bytes of a string of the file. Throws Failure (wrong input), which names `file`, for elements that are not strings.
int64_t npy_string_bytes(const NpyHeader& header, const std::string& file);

/// The string whose code points are in `element`. Throws Failure (wrong input) if it is longer than a String, or has a
/// number that is not a code point. `what` names it: "x.npy: element [1, 2]".
String string_of_points(std::string_view element, const std::string& what);

/// Strings in a file's format.
struct NpyStrings {
  std::string type;  // "<U12"
  std::string bytes;
};
NpyStrings npy_strings(const String* strings, int64_t count);

/// Throws Failure (wrong input) if the bytes of a String are not UTF-8.
void check_strings(std::string_view elements, const std::string& what);

}  // namespace weft

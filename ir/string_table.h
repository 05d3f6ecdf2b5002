// Strings as numbers: a Tensor holds the number of each string. Code that moves or compares elements treats strings as
// integers; only code that looks into a string reads its bytes. Numbers do not follow the order of strings.
//
// In memory an element of a tensor of strings is a byte that holds its length, then its bytes, which are UTF-8, then
// zeros: weft::String of the runtime.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weftc {

/// The maximum length of an element in bytes. Longer strings are refused in a model, in a file and in a running
/// program.
inline constexpr int64_t kMostStringBytes = 255;

/// The number of a string: 0 for "", and equal for equal strings.
int64_t string_id(std::string_view string);
/// The string of that number.
const std::string& string_of(int64_t id);

/// The string that an element holds, and an element for a string of at most kMostStringBytes.
std::string_view string_in_memory(const std::byte* element);
void put_in_memory(std::string_view string, std::byte* element);

/// "" if an element can hold the string, else the reason: "has 300 bytes, more than the 255 of an element".
std::string why_no_element(std::string_view string);

}  // namespace weftc

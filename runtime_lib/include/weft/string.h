// The element of a tensor of strings: as all elements it is moved by copying its bytes, which are as many for each.
#pragma once
#include <cstdint>

namespace weft {

/// UTF-8 of at most kMost bytes, with zeros behind it. What is longer is refused, where it comes in and where it would
/// be made.
struct String {
  static constexpr int kMost = 255;
  uint8_t length;
  char bytes[kMost];

  bool operator==(const String& other) const {
    return length == other.length && __builtin_memcmp(bytes, other.bytes, length) == 0;
  }
};
static_assert(sizeof(String) == 256);

}  // namespace weft

// The element of a tensor of strings. Like other elements it has a fixed size and is moved by copying its bytes.
#pragma once
#include <cstdint>

namespace weft {

/// UTF-8 of at most kMost bytes, padded with zeros. Longer strings are refused, both in inputs and in results.
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

// The order of TopK as integer keys: the greater key comes first, and for equal keys the lower index. NaN is greater
// than every number, as in NumPy; 0 and -0 are equal.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "weft/device_macros.h"

namespace weft {

enum class Extreme : uint8_t { Largest, Smallest };

template <class T>
using OrderKey = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

/// The key of an element: signed numbers compare as vectors on every host.
template <Extreme kExtreme, class T>
WEFT_HD OrderKey<T> order_key(T element) {
  using Key = OrderKey<T>;
  constexpr Key kLowest = std::numeric_limits<Key>::min(), kHighest = std::numeric_limits<Key>::max();
  Key key;
  if constexpr (std::is_floating_point_v<T>) {
    // Masks in place of conditions: g++ 12 makes branches of those in a loop.
    constexpr Key kInfinity = std::bit_cast<Key>(std::numeric_limits<T>::infinity());
    const Key bits = std::bit_cast<Key>(element), magnitude = bits & kHighest, sign = bits >> (8 * sizeof(Key) - 1);
    const Key is_nan = -Key(magnitude > kInfinity);
    key = (((magnitude ^ sign) - sign) & ~is_nan) | (kHighest & is_nan);
  } else if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(Key)) {
    key = Key(element) ^ kLowest;
  } else {
    key = Key(element);
  }
  return kExtreme == Extreme::Largest ? key : Key(~key);
}

/// An element of a line by its key and its place.
template <class Key>
struct Ranked {
  Key key;
  int64_t index;
  WEFT_HD bool is_before(const Ranked& other) const {
    return key > other.key || (key == other.key && index < other.index);
  }
};

/// Sentinels: one before every element of a line, and one after every element.
template <class Key>
WEFT_HD Ranked<Key> before_all() {
  return {std::numeric_limits<Key>::max(), -1};
}
template <class Key>
WEFT_HD Ranked<Key> after_all(int64_t length) {
  return {std::numeric_limits<Key>::min(), length};
}

}  // namespace weft

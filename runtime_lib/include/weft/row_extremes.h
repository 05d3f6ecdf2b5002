// The largest and the smallest element of a row that is computed element by element. Four vectors of results do not
// wait for each other, and the lanes of the last one are combined as a tree: g++ carries one vector through a loop,
// and combines its lanes one behind the other.
#pragma once
#include <cstdint>
#include <cstring>
#include <limits>

#include "weft/math.h"
#include "weft/panels.h"

namespace weft {

namespace detail {

struct Largest {
  template <class T>
  static constexpr T kStart = -std::numeric_limits<T>::infinity();
  /// The first operand where one of them is NaN.
  template <class V>
  static V ignoring_nan(V best, V x) {
    return x > best ? x : best;
  }
  template <class V>
  [[gnu::always_inline]] static V of(V a, V b) {
    return maximum(a, b);
  }
};
struct Smallest {
  template <class T>
  static constexpr T kStart = std::numeric_limits<T>::infinity();
  template <class V>
  static V ignoring_nan(V best, V x) {
    return x < best ? x : best;
  }
  template <class V>
  [[gnu::always_inline]] static V of(V a, V b) {
    return minimum(a, b);
  }
};

template <class Extreme, class T, int kBytes, class V>
[[gnu::always_inline]] inline T extreme_lane(const V& x) {
  if constexpr (kBytes == 2 * sizeof(T)) {
    return Extreme::of(T(x[0]), T(x[1]));
  } else {
    typedef T Half __attribute__((vector_size(kBytes / 2)));
    Half low, high;
    std::memcpy(&low, &x, sizeof low);
    std::memcpy(&high, reinterpret_cast<const char*>(&x) + sizeof low, sizeof high);
    return extreme_lane<Extreme, T, kBytes / 2>(Extreme::of(low, high));
  }
}

/// The extreme of `count` elements, NaN where one of them is: the result depends on no order.
template <class Extreme, class T, class Element>
[[gnu::always_inline]] inline T row_extreme(int64_t count, const Element& element) {
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  constexpr int64_t kLanes = kVectorBytes / sizeof(T), kBlock = 4;
  T rest = Extreme::template kStart<T>;
  if (count < kLanes) {
    for (int64_t i = 0; i < count; ++i) rest = Extreme::of(rest, T(element(i)));
    return rest;
  }
  const Vector start = Vector{} + rest;
  Vector best[kBlock] = {start, start, start, start};
  auto nan = start != start;  // which lanes have met one
  // The array is registers: g++ computes its elements as vectors, and reads them as such.
  const auto take = [&]<int64_t kCount>(std::integral_constant<int64_t, kCount>, int64_t first) {
    Vector block[kCount];
    T* const elements = reinterpret_cast<T*>(block);
#pragma omp simd
    for (int64_t i = 0; i < kCount * kLanes; ++i) elements[i] = element(first + i);
#pragma GCC unroll 4
    for (int64_t v = 0; v < kCount; ++v) {
      best[v] = Extreme::ignoring_nan(best[v], block[v]);
      nan |= block[v] != block[v];
    }
  };
  int64_t i = 0;
  for (; i + kBlock * kLanes <= count; i += kBlock * kLanes) take(std::integral_constant<int64_t, kBlock>(), i);
  for (; i + kLanes <= count; i += kLanes) take(std::integral_constant<int64_t, 1>(), i);
  if (i < count) take(std::integral_constant<int64_t, 1>(), count - kLanes);  // some elements once more
  const Vector all =
      Extreme::ignoring_nan(Extreme::ignoring_nan(best[0], best[1]), Extreme::ignoring_nan(best[2], best[3]));
  return extreme_lane<Extreme, T, kVectorBytes>(nan ? Vector{} + std::numeric_limits<T>::quiet_NaN() : all);
}

}  // namespace detail

/// The largest of element(0) .. element(count - 1); NaN where one of them is, and -infinity of none.
template <class T, class Element>
[[gnu::always_inline]] inline T maximum_of(int64_t count, const Element& element) {
  return detail::row_extreme<detail::Largest, T>(count, element);
}
/// The smallest likewise, and infinity of none.
template <class T, class Element>
[[gnu::always_inline]] inline T minimum_of(int64_t count, const Element& element) {
  return detail::row_extreme<detail::Smallest, T>(count, element);
}

}  // namespace weft

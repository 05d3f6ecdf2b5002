// Elements of a row, computed one by one, as vectors: shared by row_extremes.h and row_sums.h.
#pragma once
#include <cstdint>
#include <cstring>

#include "weft/panels.h"

namespace weft::detail {

template <class T>
struct RowVectors {
  static constexpr int64_t kLanes = kVectorBytes / int64_t(sizeof(T)), kBlock = 4;
  typedef T Vector __attribute__((vector_size(kVectorBytes)));

  /// `kCount` vectors of elements, from element(first) on. The array is registers: g++ computes its elements as
  /// vectors, and reads them as such.
  template <int64_t kCount, class Element>
  [[gnu::always_inline]] static void take(Vector (&block)[kCount], int64_t first, const Element& element) {
    T* const elements = reinterpret_cast<T*>(block);
#pragma omp simd
    for (int64_t i = 0; i < kCount * kLanes; ++i) elements[i] = element(first + i);
  }
};

/// The lanes of a vector combined as a tree.
template <class T, int kBytes, class V, class Combine>
[[gnu::always_inline]] inline T all_lanes(const V& x, const Combine& combine) {
  if constexpr (kBytes == 2 * sizeof(T)) {
    return combine(T(x[0]), T(x[1]));
  } else {
    typedef T Half __attribute__((vector_size(kBytes / 2)));
    Half low, high;
    std::memcpy(&low, &x, sizeof low);
    std::memcpy(&high, reinterpret_cast<const char*>(&x) + sizeof low, sizeof high);
    return all_lanes<T, kBytes / 2>(combine(low, high), combine);
  }
}

}  // namespace weft::detail

// Stores of what no cache will hold until it is read: past the caches memory need not be read first, and what they hold
// stays. On CPUs without such stores they are plain ones.
#pragma once
#include <cstdint>

#include "weft/row_vectors.h"

namespace weft {

namespace detail {
/// `to` lies where a vector may begin.
template <class Vector>
[[gnu::always_inline]] inline void store_vector_past_caches(void* to, const Vector& x) {
#if defined(__clang__)
  __builtin_nontemporal_store(x, static_cast<Vector*>(to));
#elif defined(__SSE2__)
  typedef long long Words __attribute__((vector_size(kVectorBytes), may_alias));
#if defined(__AVX512F__)
  __builtin_ia32_movntdq512(static_cast<Words*>(to), reinterpret_cast<Words>(x));
#elif defined(__AVX__)
  __builtin_ia32_movntdq256(static_cast<Words*>(to), reinterpret_cast<Words>(x));
#else
  __builtin_ia32_movntdq(static_cast<Words*>(to), reinterpret_cast<Words>(x));
#endif
#else
  *static_cast<Vector*>(to) = x;
#endif
}
}  // namespace detail

/// row[c] = element(c) for first <= c < last. Other threads see it once finish_stores() has been called.
template <class T, class Element>
[[gnu::always_inline]] inline void store_past_caches(T* row, int64_t first, int64_t last, const Element& element) {
  using Row = detail::RowVectors<T>;
  constexpr int64_t kLanes = Row::kLanes, kBlock = Row::kBlock;
  constexpr int64_t kLineBytes = 64, kLine = kLineBytes / int64_t(sizeof(T));
  // Up to the next line as usual: of a line that two threads share, each would write its part to memory by itself.
  const uintptr_t address = reinterpret_cast<uintptr_t>(row + first);
  const int64_t into_line = int64_t(address % kLineBytes / sizeof(T));
  const int64_t next_line = into_line == 0 ? first : first + kLine - into_line;
#pragma omp simd
  for (int64_t before = first; before < (next_line < last ? next_line : last); ++before) row[before] = element(before);
  int64_t c = next_line;
  if (address % sizeof(T) == 0)  // else no vector may begin anywhere
    for (; c + kBlock * kLanes <= last; c += kBlock * kLanes) {
      typename Row::Vector block[kBlock];
      Row::take(block, c, element);
#pragma GCC unroll 4
      for (int64_t v = 0; v < kBlock; ++v) detail::store_vector_past_caches(row + c + v * kLanes, block[v]);
    }
#pragma omp simd
  for (int64_t rest = c; rest < last; ++rest) row[rest] = element(rest);
}

/// What this thread has stored past the caches comes before what it stores from now on.
inline void finish_stores() {
#if defined(__SSE2__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace weft

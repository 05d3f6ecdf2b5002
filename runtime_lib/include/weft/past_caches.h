// Non-temporal stores of data that no cache will hold until it is read. They avoid reading the memory first, and do not
// evict other data. On CPUs without such stores they are plain ones.
#pragma once
#include <cstdint>

#include "weft/row_vectors.h"

namespace weft {

namespace detail {
/// `to` is aligned for a vector.
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
  // Plain stores up to the next cache line: two threads that share a line would each write their part to memory
  // separately.
  const uintptr_t address = reinterpret_cast<uintptr_t>(row + first);
  const int64_t into_line = int64_t(address % kLineBytes / sizeof(T));
  const int64_t next_line = into_line == 0 ? first : first + kLine - into_line;
#pragma omp simd
  for (int64_t before = first; before < (next_line < last ? next_line : last); ++before) row[before] = element(before);
  int64_t c = next_line;
  if (address % sizeof(T) == 0)  // else no address is aligned for a vector
    for (; c + kBlock * kLanes <= last; c += kBlock * kLanes) {
      typename Row::Vector block[kBlock];
      Row::take(block, c, element);
#pragma GCC unroll 4
      for (int64_t v = 0; v < kBlock; ++v) detail::store_vector_past_caches(row + c + v * kLanes, block[v]);
    }
#pragma omp simd
  for (int64_t rest = c; rest < last; ++rest) row[rest] = element(rest);
}

/// Orders this thread's earlier non-temporal stores before its later stores.
inline void finish_stores() {
#if defined(__SSE2__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace weft

// Prefetches of memory that is read soon. They only affect time, and ignore invalid addresses.
#pragma once
#include <cstdint>

namespace weft {

/// Prefetches the cache lines of `count` elements.
template <class T>
[[gnu::always_inline]] inline void ask_to_read(const T* first, int64_t count) {
  constexpr int64_t kLineBytes = 64;
  for (int64_t i = 0; i < count; i += kLineBytes / int64_t(sizeof(T))) __builtin_prefetch(first + i, 0, 3);
}

}  // namespace weft

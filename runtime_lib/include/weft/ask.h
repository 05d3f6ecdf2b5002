// Requests for memory that is read soon. They change nothing but the time that this takes, and ask for nothing where no
// memory is.
#pragma once
#include <cstdint>

namespace weft {

/// Asks for the cache lines of `count` elements.
template <class T>
[[gnu::always_inline]] inline void ask_to_read(const T* first, int64_t count) {
  constexpr int64_t kLineBytes = 64;
  for (int64_t i = 0; i < count; i += kLineBytes / int64_t(sizeof(T))) __builtin_prefetch(first + i, 0, 3);
}

}  // namespace weft

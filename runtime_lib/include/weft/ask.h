// Requests for memory that is read or stored soon. They change nothing but the time that this takes, and ask for
// nothing where no memory is.
#pragma once
#include <cstdint>

namespace weft {

namespace detail {
constexpr int64_t kLineBytes = 64;
}

/// Asks for the cache lines of `count` elements.
template <class T>
[[gnu::always_inline]] inline void ask_to_read(const T* first, int64_t count) {
  for (int64_t i = 0; i < count; i += detail::kLineBytes / int64_t(sizeof(T))) __builtin_prefetch(first + i, 0, 3);
}
/// The same where they are stored.
template <class T>
[[gnu::always_inline]] inline void ask_to_store(const T* first, int64_t count) {
  for (int64_t i = 0; i < count; i += detail::kLineBytes / int64_t(sizeof(T))) __builtin_prefetch(first + i, 1, 3);
}

}  // namespace weft

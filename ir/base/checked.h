// Arithmetic on numbers that a file gives. A result that does not fit into 64 bits is std::nullopt.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

namespace weftc {

/// More elements than any tensor has; attributes are compared with it.
inline constexpr int64_t kMostExtent = int64_t{1} << 40;

inline std::optional<int64_t> checked_sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::nullopt : std::optional(sum);
}

inline std::optional<int64_t> checked_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::nullopt : std::optional(product);
}

/// Converts a number of elements that a file gives as a real. It is clamped to +-kMostExtent; NaN becomes 0.
inline int64_t whole_number(double real) {
  constexpr double kMost = 2.0 * static_cast<double>(kMostExtent);
  return real == real ? static_cast<int64_t>(std::clamp(real, -kMost, kMost)) : 0;
}

}  // namespace weftc

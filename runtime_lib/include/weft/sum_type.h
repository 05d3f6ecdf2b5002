// Keeps the digits of sums of very many elements: a few elements are added in sequence in their own type, and the sums
// of such parts in a wider one. The error of one accumulator grows with the number of elements; with parts it does not.
#pragma once
#include <cstdint>
#include <type_traits>

namespace weft {

/// The type in which sums of T are added up, and long running sums are kept.
template <class T>
using SumOfSums = std::conditional_t<std::is_same_v<T, float>, double, T>;

/// The most elements that are added in sequence in their own type.
inline constexpr int64_t kAddedInTurn = 32;
/// The same of products whose sums are in registers, and of the sums of such parts: storing sums more often takes time.
inline constexpr int64_t kTermsInTurn = 96;
/// The number of terms of the next part, if `terms` remain.
[[gnu::always_inline]] constexpr int64_t next_part(int64_t terms) {
  return terms < kTermsInTurn ? terms : kTermsInTurn;
}

}  // namespace weft

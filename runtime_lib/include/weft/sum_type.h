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
/// The same of products whose sums are in registers: storing sums more often takes time.
inline constexpr int64_t kTermsInTurn = 96;
/// The most parts of a product whose sums are added in their own type; sums of more parts are added in a wider one.
inline constexpr int64_t kPartsInTurn = 32;
/// The number of terms of each part of a sum; the last part may have fewer. A sum of less than two parts is cut in
/// halves, of whole rounds of loops: otherwise it would have the error of a whole part.
[[gnu::always_inline]] constexpr int64_t part_of(int64_t terms) {
  return terms > kTermsInTurn && terms < 2 * kTermsInTurn ? (terms + 15) / 16 * 8 : kTermsInTurn;
}
/// The number of terms of the next part, if `left` remain.
[[gnu::always_inline]] constexpr int64_t next_part(int64_t left, int64_t part) { return left < part ? left : part; }

}  // namespace weft

// The sum of a row that is computed element by element. Four vectors of sums are independent of each other, and the
// lanes of the last one are added as a tree. By itself, g++ would carry one vector through a loop and add its lanes in
// sequence. Very many elements are summed in parts (sum_type.h).
#pragma once
#include <algorithm>

#include "weft/row_vectors.h"
#include "weft/sum_type.h"

namespace weft {

namespace detail {
template <class T, int64_t kBlock, class Element>
[[gnu::always_inline]] inline T sum_of_part(int64_t first, int64_t count, const Element& element) {
  using Row = RowVectors<T>;
  using Vector = typename Row::Vector;
  constexpr int64_t kLanes = Row::kLanes;
  const int64_t end = first + count, whole = end - count % kLanes;  // the elements before `whole` fill vectors
  Vector sums[4] = {}, one[1];
  int64_t i = first;
  if constexpr (kBlock > 1)
    for (; i + kBlock * kLanes <= whole; i += kBlock * kLanes) {
      Vector block[kBlock];
      Row::take(block, i, element);
#pragma GCC unroll 4
      for (int64_t v = 0; v < kBlock; ++v) sums[v] += block[v];
    }
  for (; i < whole; i += kLanes) {
    Row::take(one, i, element);
    sums[0] += one[0];
  }
  T rest = 0;
#pragma omp simd reduction(+ : rest)
  for (int64_t k = whole; k < end; ++k) rest += element(k);
  const auto add = [](auto a, auto b) { return a + b; };
  return all_lanes<T, kVectorBytes>((sums[0] + sums[1]) + (sums[2] + sums[3]), add) + rest;
}

template <class T, int64_t kBlock, class Element>
[[gnu::always_inline]] inline T row_sum(int64_t count, const Element& element) {
  // The errors of lanes partly cancel, so that each may add more elements than a sum of one lane.
  constexpr int64_t kPart = 4 * kAddedInTurn * kBlock * RowVectors<T>::kLanes;
  if (count <= kPart) return sum_of_part<T, kBlock>(0, count, element);
  SumOfSums<T> sum = 0;
  for (int64_t first = 0; first < count; first += kPart)
    sum += sum_of_part<T, kBlock>(first, std::min(kPart, count - first), element);
  return T(sum);
}
}  // namespace detail

/// The sum of element(0) .. element(count - 1), in an order that depends on `count` alone.
template <class T, class Element>
[[gnu::always_inline]] inline T sum_of(int64_t count, const Element& element) {
  return detail::row_sum<T, 4>(count, element);
}
/// The same for an `element` that also stores what it computes, which takes longer than an addition. One vector at a
/// time leaves registers for the computation.
template <class T, class Element>
[[gnu::always_inline]] inline T sum_of_stored(int64_t count, const Element& element) {
  return detail::row_sum<T, 1>(count, element);
}

}  // namespace weft

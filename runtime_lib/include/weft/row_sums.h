// The sum of a row that is computed element by element. Four vectors of sums do not wait for each other, and the lanes
// of the last one are added as a tree: g++ carries one vector through a loop, and adds its lanes one behind the other.
#pragma once
#include "weft/row_vectors.h"

namespace weft {

/// The sum of element(0) .. element(count - 1), in an order that depends on `count` alone.
template <class T, class Element>
[[gnu::always_inline]] inline T sum_of(int64_t count, const Element& element) {
  using Row = detail::RowVectors<T>;
  using Vector = typename Row::Vector;
  constexpr int64_t kLanes = Row::kLanes, kBlock = Row::kBlock;
  Vector sums[kBlock] = {}, one[1];
  int64_t i = 0;
  for (; i + kBlock * kLanes <= count; i += kBlock * kLanes) {
    Vector block[kBlock];
    Row::take(block, i, element);
#pragma GCC unroll 4
    for (int64_t v = 0; v < kBlock; ++v) sums[v] += block[v];
  }
  for (; i + kLanes <= count; i += kLanes) {
    Row::take(one, i, element);
    sums[0] += one[0];
  }
  T rest = 0;
#pragma omp simd reduction(+ : rest)
  for (int64_t k = i; k < count; ++k) rest += element(k);
  const auto add = [](auto a, auto b) { return a + b; };
  return detail::all_lanes<T, detail::kVectorBytes>((sums[0] + sums[1]) + (sums[2] + sums[3]), add) + rest;
}

}  // namespace weft

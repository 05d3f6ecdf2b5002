// Sums down the columns of a matrix that is computed element by element: neighbours in memory belong to different sums.
// Four vectors of sums are independent, and two cache lines of a row are read together. Where no cache holds the
// matrix, 32 columns at a time take half the time of 16.
#pragma once
#include <algorithm>

#include "weft/row_vectors.h"
#include "weft/sum_type.h"

namespace weft {

namespace detail {

/// Sums `kColumns` columns from `column` on and calls put(column, sum), except for the first `skip` of them. The order
/// of additions depends on `count` alone.
template <class T, int kColumns, class Element, class Put>
[[gnu::always_inline]] inline void sum_some_columns(int64_t column, int64_t skip, int64_t count, const Element& element,
                                                    const Put& put) {
  constexpr int kBytes = std::min<int>(kVectorBytes, kColumns * sizeof(T)), kLanes = kBytes / int(sizeof(T));
  constexpr int kVectors = kColumns / kLanes, kSums = 4;
  constexpr int64_t kPart = kAddedInTurn * kSums;
  typedef T Vector __attribute__((vector_size(kBytes)));
  alignas(64) SumOfSums<T> sums[kColumns] = {};
  for (int64_t first = 0; first < count; first += kPart) {
    const int64_t end = std::min(first + kPart, count), whole = end - (end - first) % kSums;
    Vector part[kSums][kVectors] = {};
    const auto add = [&](int64_t i, Vector(&to)[kVectors]) __attribute__((always_inline)) {
      Vector row[kVectors];
      T* const elements = reinterpret_cast<T*>(row);
#pragma omp simd
      for (int64_t j = 0; j < kColumns; ++j) elements[j] = element(column + j, i);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) to[v] += row[v];
    };
    int64_t i = first;
    for (; i < whole; i += kSums)
#pragma GCC unroll 4
      for (int s = 0; s < kSums; ++s) add(i + s, part[s]);
    for (; i < end; ++i) add(i, part[0]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) part[0][v] = (part[0][v] + part[1][v]) + (part[2][v] + part[3][v]);
    const T* const of_part = reinterpret_cast<const T*>(part[0]);
#pragma omp simd
    for (int64_t j = 0; j < kColumns; ++j) sums[j] += of_part[j];
  }
#pragma omp simd
  for (int64_t j = skip; j < kColumns; ++j) put(column + j, T(sums[j]));
}

/// All columns, kColumns or more of them. The last panel begins early enough to lie inside.
template <class T, int kColumns, class Element, class Put>
[[gnu::always_inline]] inline void sum_panels(int64_t first, int64_t last, int64_t count, const Element& element,
                                              const Put& put) {
  for (int64_t column = first; column < last; column += kColumns) {
    const int64_t skip = std::max<int64_t>(0, column + kColumns - last);
    sum_some_columns<T, kColumns>(column - skip, skip, count, element, put);
  }
}

}  // namespace detail

/// Calls put(column, sum) for the columns first .. last, with the sum of element(column, i) over i < count.
template <class T, class Element, class Put>
[[gnu::always_inline]] inline void sum_columns(int64_t first, int64_t last, int64_t count, const Element& element,
                                               const Put& put) {
  const int64_t columns = last - first;
  if (columns >= 32) return detail::sum_panels<T, 32>(first, last, count, element, put);
  if (columns >= 16) return detail::sum_panels<T, 16>(first, last, count, element, put);
  if (columns >= 8) detail::sum_some_columns<T, 8>(first, 0, count, element, put), first += 8;
  for (; first < last; ++first) detail::sum_some_columns<T, 1>(first, 0, count, element, put);
}

}  // namespace weft

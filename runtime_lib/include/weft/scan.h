// Running sums and products along one axis of a tensor that is seen as [outer][length][inner]: each element is read and
// written once.
#pragma once
#include <algorithm>
#include <cstdint>

#include "weft/team.h"
#include "weft/types.h"

namespace weft {

namespace detail {

/// The sum or the product of what was taken and one more element.
template <class T, ScanOrder kOrder>
inline T taken(T before, T element) {
  if constexpr (kOrder.product) return T(before * element);
  return T(before + element);
}

/// One line: a sum in a register.
template <class T, ScanOrder kOrder, class Load, class Put>
inline void scan_line(int64_t outer, int64_t length, int64_t inner, Load& load, Put& put) {
  T sum = kOrder.product;
  for (int64_t step = 0; step < length; ++step) {
    const int64_t i = kOrder.reverse ? length - 1 - step : step;
    const T before = sum;
    sum = taken<T, kOrder>(sum, load(outer, i, inner));
    put(outer, i, inner, kOrder.exclusive ? before : sum);
  }
}

/// Lines that lie side by side: a row of sums, of which each step of the axis is a vector operation.
template <class T, ScanOrder kOrder, int64_t kColumns, class Load, class Put>
inline void scan_columns(int64_t outer, int64_t length, int64_t first, int64_t count, Load& load, Put& put) {
  T sums[kColumns];
  for (T& sum : sums) sum = kOrder.product;
  for (int64_t step = 0; step < length; ++step) {
    const int64_t i = kOrder.reverse ? length - 1 - step : step;
#pragma omp simd
    for (int64_t j = 0; j < count; ++j) {
      const T before = sums[j];
      sums[j] = taken<T, kOrder>(before, load(outer, i, first + j));
      put(outer, i, first + j, kOrder.exclusive ? before : sums[j]);
    }
  }
}

}  // namespace detail

/// Calls put(outer, i, inner, sum) for each element, where load(outer, i, inner) gives what is summed. The order of a
/// line's additions is that of the axis, whatever the number of threads.
template <class T, ScanOrder kOrder, class Load, class Put>
void scan(Team& team, int64_t outer, int64_t length, int64_t inner, Load&& load, Put&& put) {
  constexpr int64_t kColumns = 64, kGrainElements = 16384;
  if (inner <= 0) return;
  const int64_t groups = (inner + kColumns - 1) / kColumns, elements = length * std::min(inner, kColumns);
  const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, elements));
  team.parallel(outer * groups, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item % groups * kColumns, count = std::min(kColumns, inner - first);
      if (count == 1)
        detail::scan_line<T, kOrder>(item / groups, length, first, load, put);
      else
        detail::scan_columns<T, kOrder, kColumns>(item / groups, length, first, count, load, put);
    }
  });
}

}  // namespace weft

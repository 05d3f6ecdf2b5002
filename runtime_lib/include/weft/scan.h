// Running sums and products along one axis of a tensor that is seen as [outer][length][inner]: each element is read and
// written once.
#pragma once
#include <algorithm>
#include <cstdint>

#include "weft/sum_type.h"
#include "weft/team.h"
#include "weft/types.h"

namespace weft {

namespace detail {

/// The type of a running sum or product: a sum keeps more digits than its elements, however many they are.
template <class T, ScanOrder kOrder>
using Running = std::conditional_t<kOrder.product, T, SumOfSums<T>>;

/// Adds one more element to the sum or product.
template <ScanOrder kOrder, class R, class T>
inline R taken(R before, T element) {
  if constexpr (kOrder.product) return R(before * element);
  return R(before + element);
}

/// One line: a sum in a register.
template <class T, ScanOrder kOrder, class Load, class Put>
inline void scan_line(int64_t outer, int64_t length, int64_t inner, Load& load, Put& put) {
  Running<T, kOrder> sum = kOrder.product;
  for (int64_t step = 0; step < length; ++step) {
    const int64_t i = kOrder.reverse ? length - 1 - step : step;
    const T before = T(sum);
    sum = taken<kOrder>(sum, T(load(outer, i, inner)));
    put(outer, i, inner, kOrder.exclusive ? before : T(sum));
  }
}

/// Neighbouring lines: a row of sums, so that each step of the axis is a vector operation.
template <class T, ScanOrder kOrder, int64_t kColumns, class Load, class Put>
inline void scan_columns(int64_t outer, int64_t length, int64_t first, int64_t count, Load& load, Put& put) {
  Running<T, kOrder> sums[kColumns];
  for (auto& sum : sums) sum = kOrder.product;
  for (int64_t step = 0; step < length; ++step) {
    const int64_t i = kOrder.reverse ? length - 1 - step : step;
#pragma omp simd
    for (int64_t j = 0; j < count; ++j) {
      const T before = T(sums[j]);
      sums[j] = taken<kOrder>(sums[j], T(load(outer, i, first + j)));
      put(outer, i, first + j, kOrder.exclusive ? before : T(sums[j]));
    }
  }
}

}  // namespace detail

/// Calls put(outer, i, inner, sum) for each element, where load(outer, i, inner) returns the summand. A line's
/// additions are in the order of the axis, for any number of threads.
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

// Running sums and products along one axis of a tensor that is seen as [outer][length][inner], on a device.
#pragma once
#include "weft/device.h"
#include "weft/sum_type.h"
#include "weft/types.h"

namespace weft {

namespace detail {

/// The type of a running sum or product: a sum keeps more digits than its elements, however many they are.
template <class T, ScanOrder kOrder>
using Running = std::conditional_t<kOrder.product, T, SumOfSums<T>>;

/// Adds one more element to the sum or product.
template <ScanOrder kOrder, class R, class T>
WEFT_DEVICE R taken(R before, T element) {
  if constexpr (kOrder.product) return R(before * element);
  return R(before + element);
}

}  // namespace detail

/// Calls put(outer, i, inner, sum) for each element, where load(outer, i, inner) returns the summand. Each thread takes
/// whole lines: neighbouring threads have neighbouring lines.
template <class T, ScanOrder kOrder, class Load, class Put>
WEFT_DEVICE void scan(int64_t outer, int64_t length, int64_t inner, const Load& load, const Put& put) {
  for (int64_t line = thread(); line < outer * inner; line += threads()) {
    detail::Running<T, kOrder> sum = kOrder.product;
    for (int64_t step = 0; step < length; ++step) {
      const int64_t i = kOrder.reverse ? length - 1 - step : step;
      const T before = T(sum);
      sum = detail::taken<kOrder>(sum, T(load(line / inner, i, line % inner)));
      put(line / inner, i, line % inner, kOrder.exclusive ? before : T(sum));
    }
  }
}

namespace detail {

/// The sum of this lane's value and those of the lanes before it.
template <class T, ScanOrder kOrder>
WEFT_DEVICE T warp_scan(T value) {
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const T other = lane_before(value, distance);
    if (lane() >= distance) value = taken<kOrder>(other, value);
  }
  return value;
}

}  // namespace detail

/// The same, but each block takes whole lines: its threads take neighbouring elements, and pass on their sums. For few
/// long lines.
template <class T, ScanOrder kOrder, class Load, class Put>
WEFT_DEVICE void scan_by_block(int64_t outer, int64_t length, int64_t inner, const Load& load, const Put& put) {
  T* const of_warps = shared<T, detail::kWarp, -6>();
  const int warp = int(threadIdx.x) / detail::kWarp, warps = int(blockDim.x) / detail::kWarp;
  for (int64_t line = blockIdx.x; line < outer * inner; line += gridDim.x) {
    detail::Running<T, kOrder> carried = kOrder.product;  // the sum of all elements before the block's
    for (int64_t first = 0; first < length; first += blockDim.x) {
      const int64_t step = first + threadIdx.x, i = kOrder.reverse ? length - 1 - step : step;
      const T own = step < length ? T(load(line / inner, i, line % inner)) : T(kOrder.product);
      const T up_to = detail::warp_scan<T, kOrder>(own);
      // Not up_to - own, which would lose digits.
      const T before = lane_before(up_to, 1);
      if (lane() == detail::kWarp - 1) of_warps[warp] = up_to;
      __syncthreads();
      detail::Running<T, kOrder> sum = carried;
      for (int w = 0; w < warps; ++w) {
        if (w == warp && step < length)
          put(line / inner, i, line % inner,
              T(detail::taken<kOrder>(sum, !kOrder.exclusive ? up_to
                                           : lane() > 0      ? before
                                                             : T(kOrder.product))));
        sum = detail::taken<kOrder>(sum, of_warps[w]);
      }
      carried = sum;
      __syncthreads();  // so that the next elements may write
    }
  }
}

}  // namespace weft

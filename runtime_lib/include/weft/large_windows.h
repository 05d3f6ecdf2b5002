// Depthwise convolutions whose windows are about as large as the image, so that there are few outputs: they compute the
// gradient of the filters of a depthwise convolution. Channels lie innermost, as in channels_last.h.
//
//   a vector of channels, one row of the image between zeros     0 0 0 x0 x1 x2 ... x15 0 0 0
//   times one row of taps, for all outputs of a row at once      sum[o] += row[o + t] * filter[t]
//
// A tap is loaded once for all outputs of a row. A part of a row of taps is summed in registers, and some rows are
// summed in the same type. All of them are summed in a wider type, so that sums keep their digits (weft/sum_type.h).
#pragma once
#include <algorithm>
#include <cstdint>

#include "weft/contract.h"
#include "weft/scratch.h"
#include "weft/sliding_window.h"
#include "weft/team.h"

namespace weft {

namespace detail {

/// Outputs of a row whose sums are in registers at once.
inline constexpr int kLargeOutputs = 8;

/// One row of taps for U outputs of a vector of channels: `row` and `filters` count vectors and elements.
template <class T, int U>
[[gnu::noinline]] void add_large_row(const typename Simd<T>::Vector* row, int64_t stride, int64_t dilation,
                                     const T* filters, int64_t filter_step, int64_t taps,
                                     typename Simd<T>::Vector* sums) {
  using Vector = typename Simd<T>::Vector;
  Vector sum[U] = {};
  for (int64_t t = 0; t < taps; ++t) {
    const Vector factor = *reinterpret_cast<const Vector*>(filters + t * filter_step);
    const Vector* const at = row + t * dilation;
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) sum[u] += at[u * stride] * factor;
  }
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) sums[u] += sum[u];
}

/// The same for `outputs` of a row, some at a time.
template <class T, int U = kLargeOutputs>
void add_large_outputs(const typename Simd<T>::Vector* row, const SlidingWindow& w, const T* filters,
                       int64_t filter_step, int64_t taps, int64_t outputs, typename Simd<T>::Vector* sums) {
  for (; outputs >= U; outputs -= U, sums += U, row += U * w.stride[2])
    add_large_row<T, U>(row, w.stride[2], w.dilation[2], filters, filter_step, taps, sums);
  if constexpr (U > 1) add_large_outputs<T, U - 1>(row, w, filters, filter_step, taps, outputs, sums);
}

/// Sums of a vector of channels, which begins at `x` and `filters`, over all windows of one image.
template <class T>
class LargeWindows {
  using Vector = typename Simd<T>::Vector;

 public:
  LargeWindows(const SlidingWindow& window, int64_t channels)
      : w_(window),
        channels_(channels),
        part_(part_of(window.taps[2])),
        width_((w_.out[2] - 1) * w_.stride[2] + (w_.taps[2] - 1) * w_.dilation[2] + 1),
        first_(std::clamp<int64_t>(w_.pad[2], 0, width_)),
        skipped_(std::max<int64_t>(-w_.pad[2], 0)),
        inside_(std::clamp<int64_t>(w_.in[2] - skipped_, 0, width_ - first_)),
        row_memory_(width_ * Simd<T>::kLanes),
        sums_memory_(sum_count()),
        wide_(sum_count()),
        row_(reinterpret_cast<Vector*>(row_memory_.get())),
        sums_(reinterpret_cast<Vector*>(sums_memory_.get())) {
    std::fill(row_, row_ + width_, Vector{});
  }

  /// Returns the sums of all outputs, a vector for each.
  const T* sum(const T* x, const T* filters) {
    std::fill(sums_, sums_ + w_.out_count(), Vector{});
    is_wide_ = false, parts_ = 0;
    for (int64_t z = 0; z < w_.in[0]; ++z)
      for (int64_t y = 0; y < w_.in[1]; ++y) {
        const T* const from = x + ((z * w_.in[1] + y) * w_.in[2] + skipped_) * channels_;
        for (int64_t i = 0; i < inside_; ++i) row_[first_ + i] = *reinterpret_cast<const Vector*>(from + i * channels_);
        for (int64_t tap = 0; tap < w_.taps[2]; tap += part_) add_rows(z, y, tap, filters);
      }
    if (is_wide_) {
      widen();
      for (int64_t i = 0; i < sum_count(); ++i) sums_memory_[i] = T(wide_[i]);
    }
    return sums_memory_.get();
  }

 private:
  /// The tap with which an output reads a position of the image along dimension `d`; -1: it does not read it.
  int64_t tap_at(int d, int64_t position, int64_t output) const {
    const int64_t distance = position + w_.pad[d] - output * w_.stride[d];
    const bool is_tap = distance >= 0 && distance % w_.dilation[d] == 0 && distance / w_.dilation[d] < w_.taps[d];
    return is_tap ? distance / w_.dilation[d] : -1;
  }

  int64_t sum_count() const { return w_.out_count() * Simd<T>::kLanes; }
  /// Adds the sums of some rows to those of all.
  void widen() {
    if (!is_wide_) std::fill_n(wide_.get(), sum_count(), 0);
    for (int64_t i = 0; i < sum_count(); ++i) wide_[i] += sums_memory_[i], sums_memory_[i] = 0;
    is_wide_ = true, parts_ = 0;
  }

  /// Adds the products of the taps from `tap` on of each row of taps that reads a row of the image.
  void add_rows(int64_t z, int64_t y, int64_t tap, const T* filters) {
    const int64_t taps = next_part(w_.taps[2] - tap, part_);
    for (int64_t oz = 0; oz < w_.out[0]; ++oz)
      for (int64_t oy = 0; oy < w_.out[1]; ++oy) {
        const int64_t tz = tap_at(0, z, oz), ty = tap_at(1, y, oy);
        if (tz < 0 || ty < 0) continue;
        add_large_outputs<T>(row_ + tap * w_.dilation[2], w_,
                             filters + ((tz * w_.taps[1] + ty) * w_.taps[2] + tap) * channels_, channels_, taps,
                             w_.out[2], sums_ + (oz * w_.out[1] + oy) * w_.out[2]);
      }
    if (++parts_ == kPartsInTurn) widen();
  }

  const SlidingWindow& w_;
  int64_t channels_;
  int64_t part_;              // taps of a row whose products are added in turn
  int64_t width_, first_;     // elements of a row with its zeros, and the first of them that belongs to the image
  int64_t skipped_, inside_;  // elements of the image's row that no window reads, and those that follow in the row
  int64_t parts_ = 0;         // parts of rows whose sums are in sums_memory_
  bool is_wide_ = false;
  Scratch<T> row_memory_, sums_memory_;
  Scratch<SumOfSums<T>> wide_;
  Vector *row_, *sums_;
};

}  // namespace detail

/// One filter per channel, for at least a vector of channels; arguments as those of convolve_channels. An item is a
/// vector of channels of one image. Calls put(m, n0, width, sums).
template <class T, class Put>
void convolve_large_windows(Team& team, const SlidingWindow& window, int64_t batch, int64_t channels, const T* x,
                            const T* filters, Put&& put) {
  constexpr int64_t kLanes = detail::Simd<T>::kLanes;
  const int64_t vectors = (channels + kLanes - 1) / kLanes;
  team.parallel(batch * vectors, 1, [&](int64_t begin, int64_t end) {
    auto own_put = put;
    detail::LargeWindows<T> windows(window, channels);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / vectors, n = i % vectors * kLanes, first = std::min(n, channels - kLanes);
      const T* const sums = windows.sum(x + image * window.in_count() * channels + first, filters + first);
      const int64_t skip = n - first;  // channels that the vector before has put
      for (int64_t o = 0; o < window.out_count(); ++o)
        own_put(image * window.out_count() + o, n, kLanes - skip, sums + o * kLanes + skip);
    }
  });
}

}  // namespace weft

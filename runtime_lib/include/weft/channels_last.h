// Windows over images whose channels lie innermost, where every channel is on its own: convolutions of one filter a
// channel, and pools. Taps outside of the input are left out, so that no image is copied.
//
//   x        [batch][z][y][x][channels]
//   filters  [z taps][y taps][x taps][channels]
//   result   put(m, n0, width, ...) for up to 16 channels from n0 on of output m, counted over all images
#pragma once
#include <algorithm>
#include <cstdint>

#include "weft/contract.h"
#include "weft/sliding_window.h"

namespace weft {

namespace detail {

/// The taps first .. last of one dimension that lie inside the input.
struct TapRange {
  int64_t first, last;
};
inline TapRange taps_inside(const SlidingWindow& w, int d, int64_t output) {
  const int64_t begin = w.at(d, output, 0), step = w.dilation[d];
  if (begin >= 0 && begin + (w.taps[d] - 1) * step < w.in[d]) return {0, w.taps[d]};  // most, without a division
  const int64_t first = begin >= 0 ? 0 : std::min(w.taps[d], (-begin + step - 1) / step);
  const int64_t last = begin >= w.in[d] ? 0 : std::min(w.taps[d], (w.in[d] - 1 - begin) / step + 1);
  return {first, std::max(first, last)};
}

/// One row of outputs: which rows of the image and of the filters it reads. Places count elements.
struct WindowRow {
  const SlidingWindow& window;
  int64_t channels;
  TapRange z, y;                    // the taps that lie inside
  int64_t image, filter;            // where the first row of taps begins
  int64_t image_step, filter_step;  // from one row of taps to the next
  int64_t image_turn, filter_turn;  // added behind the last row of a plane of taps

  WindowRow(const SlidingWindow& w, int64_t c, int64_t row)
      : window(w), channels(c), z(taps_inside(w, 0, row / w.out[1])), y(taps_inside(w, 1, row % w.out[1])) {
    const int64_t rows = y.last - y.first, image_row = w.in[2] * c;
    filter_step = w.taps[2] * c, image_step = w.dilation[1] * image_row;
    filter = (z.first * w.taps[1] + y.first) * filter_step;
    image = (w.at(0, row / w.out[1], z.first) * w.in[1] + w.at(1, row % w.out[1], y.first)) * image_row;
    filter_turn = w.taps[1] * filter_step - rows * filter_step;
    image_turn = w.dilation[0] * w.in[1] * image_row - rows * image_step;
  }

  /// Calls f(begin of the row in the image, begin of its taps in the filters) for each row of taps.
  template <class F>
  void each_row(F&& f) const {
    int64_t from = image, taps = filter;
    for (int64_t i = z.first; i < z.last; ++i, from += image_turn, taps += filter_turn)
      for (int64_t j = y.first; j < y.last; ++j, from += image_step, taps += filter_step) f(from, taps);
  }
};

/// Calls f(first row of outputs, image of its input) for the rows begin .. end of all images.
template <class F>
void each_window_row(const SlidingWindow& w, int64_t channels, int64_t begin, int64_t end, F&& f) {
  const int64_t rows = w.out[0] * w.out[1];
  for (int64_t i = begin; i < end; ++i)
    f(WindowRow(w, channels, i % rows), i / rows * w.in_count() * channels, i * w.out[2]);
}

/// Outputs side by side that keep the vector units busy.
template <class T>
inline constexpr int kNeighbours = 8 / Simd<T>::kPanelVectors > 2 ? 8 / Simd<T>::kPanelVectors : 2;

/// Adds the taps of one row to sums of 16 channels of U neighbouring outputs.
template <class T, int U, class Sums>
[[gnu::always_inline]] inline void add_taps(const T* from, int64_t stride, int64_t step, const T* factors,
                                            int64_t channels, auto taps, Sums& sum) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  for (int64_t t = 0; t < taps; ++t, from += step, factors += channels)
#pragma GCC unroll 4
    for (int v = 0; v < S::kPanelVectors; ++v) {
      const Vector factor = *reinterpret_cast<const Vector*>(factors + v * S::kLanes);
#pragma GCC unroll 8
      for (int u = 0; u < U; ++u)
        sum[u][v] += *reinterpret_cast<const Vector*>(from + u * stride + v * S::kLanes) * factor;
    }
}

/// Sums of 16 channels of U neighbouring outputs from `output` on, whose taps along x are the same ones. `taps` is how
/// many, a constant where it is 3.
template <class T, int U>
void neighbour_sums(const WindowRow& row, const T* x, const T* filters, int64_t output, TapRange along, auto taps,
                    T* sums) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  constexpr int V = S::kPanelVectors;
  const SlidingWindow& w = row.window;
  const int64_t pixel = row.channels, stride = w.stride[2] * pixel, step = w.dilation[2] * pixel;
  Vector sum[U][V] = {};
  x += w.at(2, output, along.first) * pixel;
  filters += along.first * pixel;
  row.each_row([&](int64_t from, int64_t factors) __attribute__((always_inline)) {
    add_taps<T, U>(x + from, stride, step, filters + factors, pixel, taps, sum);
  });
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) *reinterpret_cast<Vector*>(sums + u * kPanel + v * S::kLanes) = sum[u][v];
}

/// The last few channels, where a vector would read beyond.
template <class T>
void few_channel_sums(const WindowRow& row, const T* x, const T* filters, int64_t output, TapRange along, int64_t width,
                      T* sums) {
  std::fill(sums, sums + kPanel, T(0));
  row.each_row([&](int64_t image, int64_t factors) {
    for (int64_t t = along.first; t < along.last; ++t) {
      const T* from = x + image + row.window.at(2, output, t) * row.channels;
      const T* factor = filters + factors + t * row.channels;
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) sums[j] += from[j] * factor[j];
    }
  });
}

/// U, or half as many, ... outputs of 16 channels from `output` on: as many as have all taps inside, or one. Returns
/// how many.
template <class T, int U>
int64_t several_sums(const WindowRow& row, const T* x, const T* filters, int64_t output, TapRange along, T* sums) {
  const SlidingWindow& w = row.window;
  const int64_t behind = output + U - 1, taps = along.last - along.first;
  if constexpr (U > 1)
    if (behind >= w.out[2] || taps < w.taps[2] || w.at(2, behind, w.taps[2] - 1) >= w.in[2])
      return several_sums<T, U / 2>(row, x, filters, output, along, sums);
  if (taps == 3)
    neighbour_sums<T, U>(row, x, filters, output, along, std::integral_constant<int64_t, 3>{}, sums);
  else
    neighbour_sums<T, U>(row, x, filters, output, along, taps, sums);
  return U;
}

/// One row of outputs, all channels.
template <class T, class Put>
void convolve_row(const WindowRow& row, const T* x, const T* filters, int64_t m, Put& put) {
  alignas(64) T sums[kNeighbours<T> * kPanel];
  for (int64_t n = 0; n < row.channels; n += kPanel) {
    const int64_t width = std::min(kPanel, row.channels - n);
    for (int64_t o = 0, outputs = 1; o < row.window.out[2]; o += outputs) {
      const TapRange along = taps_inside(row.window, 2, o);
      if (width == kPanel)
        outputs = several_sums<T, kNeighbours<T>>(row, x + n, filters + n, o, along, sums);
      else
        few_channel_sums(row, x + n, filters + n, o, along, width, sums);
      for (int64_t u = 0; u < outputs; ++u) put_row(m + o + u, n, width, sums + u * kPanel, put);
    }
  }
}

/// One output of a pool, all channels.
template <class T, class Combine, class Put>
void pool_output(const WindowRow& row, const T* x, T identity, int64_t output, int64_t m, Combine& combine, Put& put) {
  constexpr int64_t kWidth = 4 * kPanel;
  const SlidingWindow& w = row.window;
  const TapRange along = taps_inside(w, 2, output);
  const int64_t taps = (row.z.last - row.z.first) * (row.y.last - row.y.first) * (along.last - along.first);
  alignas(64) T results[kWidth];
  for (int64_t n = 0; n < row.channels; n += kWidth) {
    const int64_t width = std::min(kWidth, row.channels - n);
    std::fill(results, results + kWidth, identity);
    row.each_row([&](int64_t image, int64_t) {
      for (int64_t t = along.first; t < along.last; ++t) {
        const T* from = x + image + w.at(2, output, t) * row.channels + n;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) results[j] = combine(results[j], from[j]);
      }
    });
    auto put_taps = [&](int64_t at, int64_t n0, auto count, const T* values) { put(at, n0, count, values, taps); };
    for (int64_t j = 0; j < width; j += kPanel) put_row(m, n + j, std::min(kPanel, width - j), results + j, put_taps);
  }
}

/// Rows of outputs that are worth a thread.
inline int64_t window_grain(const SlidingWindow& w, int64_t channels) {
  return std::max<int64_t>(1, 65536 / std::max<int64_t>(1, w.out[2] * channels * w.tap_count()));
}

}  // namespace detail

/// Packs filters that lie [channels][taps]: what the compiler does with constants.
template <class T>
void pack_channel_filters(const SlidingWindow& w, int64_t channels, const T* filters, T* out) {
  for (int64_t tap = 0; tap < w.tap_count(); ++tap)
    for (int64_t channel = 0; channel < channels; ++channel) *out++ = filters[channel * w.tap_count() + tap];
}

/// One filter a channel. Calls put(m, n0, width, sums).
template <class T, class Put>
void convolve_channels(Team& team, const SlidingWindow& window, int64_t batch, int64_t channels, const T* x,
                       const T* filters, Put&& put) {
  team.parallel(batch * window.out[0] * window.out[1], detail::window_grain(window, channels),
                [&](int64_t begin, int64_t end) {
                  detail::each_window_row(window, channels, begin, end,
                                          [&](const detail::WindowRow& row, int64_t image, int64_t m) {
                                            detail::convolve_row(row, x + image, filters, m, put);
                                          });
                });
}

/// Pools: `combine` (a maximum, a sum) over the taps inside the input, from `identity` on. Calls
/// put(m, n0, width, results, taps), where taps is how many lay inside.
template <class T, class Combine, class Put>
void pool_channels(Team& team, const SlidingWindow& window, int64_t batch, int64_t channels, const T* x, T identity,
                   Combine&& combine, Put&& put) {
  team.parallel(batch * window.out[0] * window.out[1], detail::window_grain(window, channels),
                [&](int64_t begin, int64_t end) {
                  detail::each_window_row(window, channels, begin, end,
                                          [&](const detail::WindowRow& row, int64_t image, int64_t m) {
                                            for (int64_t o = 0; o < window.out[2]; ++o)
                                              detail::pool_output(row, x + image, identity, o, m + o, combine, put);
                                          });
                });
}

}  // namespace weft

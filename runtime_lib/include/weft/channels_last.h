// Windows over images whose channels lie innermost, where every channel is on its own: convolutions of one filter a
// channel, and pools. Taps outside of the input are left out, so that no image is copied.
//
//   x        [batch][z][y][x][channels]
//   filters  [z taps][y taps][x taps][channels]
//   result   put(m, n0, width, ...) for up to 16 channels from n0 on of output m, counted over all images
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "weft/contract.h"
#include "weft/scratch.h"
#include "weft/sliding_window.h"

namespace weft {

/// What a kernel knows of a row of taps when it is compiled, where it has a panel of channels at least: a tile then
/// loads an element once for all outputs that read it.
struct TapRow {
  int taps, stride, dilation;
  int64_t channels;
};

namespace detail {

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

/// Where a tap of the first output of a run lies: in the image, in the filters.
struct TapPlace {
  int64_t image, filter;
};

/// The taps of an output of a row that has the taps `along` inside; returns how many.
inline int64_t find_taps(const WindowRow& row, int64_t output, TapRange along, TapPlace* taps) {
  int64_t count = 0;
  row.each_row([&](int64_t image, int64_t filter) {
    for (int64_t t = along.first; t < along.last; ++t)
      taps[count++] = {image + row.window.at(2, output, t) * row.channels, filter + t * row.channels};
  });
  return count;
}

/// Outputs side by side, or panels of 16 channels of one output, that keep the vector units busy.
template <class T>
inline constexpr int kNeighbours = std::clamp(int(std::bit_floor(unsigned(Simd<T>::kSums / Simd<T>::kPanelVectors))), 2,
                                              8);

/// Sums of P panels of channels of U outputs, `stride` elements apart, that have the same taps.
template <class T, int U, int P>
[[gnu::noinline]] void channel_tile(const T* x, int64_t stride, const TapPlace* taps, int64_t count, const T* filters,
                                    T* sums) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  constexpr int V = P * S::kPanelVectors;
  Vector sum[U][V] = {};
  const T* at[U];
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) at[u] = x + u * stride;
  for (const TapPlace* const end = taps + count; taps != end; ++taps)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const Vector factor = *reinterpret_cast<const Vector*>(filters + taps->filter + v * S::kLanes);
#pragma GCC unroll 8
      for (int u = 0; u < U; ++u)
        sum[u][v] += *reinterpret_cast<const Vector*>(at[u] + taps->image + v * S::kLanes) * factor;
    }
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) *reinterpret_cast<Vector*>(sums + (u * V + v) * S::kLanes) = sum[u][v];
}

/// Sums of `kWidth` channels, a power of two, of U outputs, in rows of 16.
template <class T, int kWidth, int U>
[[gnu::always_inline]] inline void sum_channels(const T* x, int64_t stride, const TapPlace* taps, int64_t count,
                                                const T* filters, T* sums) {
  typedef T Vector __attribute__((vector_size(kWidth * sizeof(T)), aligned(sizeof(T)), may_alias));
  Vector sum[U] = {};
  for (const TapPlace* const end = taps + count; taps != end; ++taps) {
    const Vector factor = *reinterpret_cast<const Vector*>(filters + taps->filter);
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) sum[u] += *reinterpret_cast<const Vector*>(x + u * stride + taps->image) * factor;
  }
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) *reinterpret_cast<Vector*>(sums + u * kPanel) = sum[u];
}

/// Fewer channels than a panel, where a vector of 16 would read beyond: 8, 4, 2 and 1 of them.
template <class T, int U, int kWidth = int(kPanel) / 2>
void few_channel_sums(const T* x, int64_t stride, const TapPlace* taps, int64_t count, const T* filters, int64_t width,
                      T* sums) {
  if (width >= kWidth) {
    sum_channels<T, kWidth, U>(x, stride, taps, count, filters, sums);
    x += kWidth, filters += kWidth, sums += kWidth, width -= kWidth;
  }
  if constexpr (kWidth > 1) few_channel_sums<T, U, kWidth / 2>(x, stride, taps, count, filters, width, sums);
}

/// Neighbouring outputs that have the same taps inside.
template <class T>
struct OutputRun {
  const T* x;  // the image
  int64_t stride, outputs, channels;
  const TapPlace* taps;
  int64_t tap_count;
};

/// Computes the outputs first .. last, U at a time, for P panels of channels from n on; the first `skip` channels of a
/// single panel are not put. `put` is a copy, as that of TilePut.
template <class T, int U, int P, class Put>
void put_tiles(const OutputRun<T>& run, const T* filters, int64_t first, int64_t last, int64_t n, int64_t skip,
               int64_t m, Put put) {
  alignas(64) T sums[U * P * kPanel];
  for (; first < last; first += U) {
    channel_tile<T, U, P>(run.x + first * run.stride + n, run.stride, run.taps, run.tap_count, filters + n, sums);
    for (int64_t u = 0; u < U; ++u)
      for (int64_t p = 0; p < P; ++p)
        put_row(m + first + u, n + p * kPanel + skip, kPanel - skip, sums + (u * P + p) * kPanel + skip, put);
  }
}

/// The same of fewer channels than a panel.
template <class T, int U, class Put>
void put_few(const OutputRun<T>& run, const T* filters, int64_t first, int64_t last, int64_t m, Put put) {
  alignas(64) T sums[U * kPanel];
  for (; first < last; first += U) {
    few_channel_sums<T, U>(run.x + first * run.stride, run.stride, run.taps, run.tap_count, filters, run.channels,
                           sums);
    for (int64_t u = 0; u < U; ++u) put_row(m + first + u, 0, run.channels, sums + u * kPanel, put);
  }
}

/// All channels of the outputs of a run, the first of which is output m. The last panel begins early enough to lie
/// inside.
template <class T, class Put>
void convolve_run(const OutputRun<T>& run, const T* filters, int64_t m, Put& put) {
  constexpr int U = kNeighbours<T>, P = kNeighbours<T>;
  const int64_t single = run.outputs / U * U, whole = run.channels / kPanel * kPanel, left = run.channels - whole;
  const int64_t last = run.channels - kPanel, skip = kPanel - left;
  for (int64_t n = 0; n < whole; n += kPanel) put_tiles<T, U, 1>(run, filters, 0, single, n, 0, m, put);
  int64_t n = 0;
  for (; n + P * kPanel <= whole; n += P * kPanel) put_tiles<T, 1, P>(run, filters, single, run.outputs, n, 0, m, put);
  for (; n < whole; n += kPanel) put_tiles<T, 1, 1>(run, filters, single, run.outputs, n, 0, m, put);
  if (left == 0) return;
  if (whole > 0) {
    put_tiles<T, U, 1>(run, filters, 0, single, last, skip, m, put);
    put_tiles<T, 1, 1>(run, filters, single, run.outputs, last, skip, m, put);
    return;
  }
  put_few<T, U>(run, filters, 0, single, m, put);
  put_few<T, 1>(run, filters, single, run.outputs, m, put);
}

/// Calls f for each run of neighbouring outputs of a row that have the same taps inside, with the first output and how
/// many taps there are. `taps` has room for all taps of a window.
template <class T, class F>
void each_run(const WindowRow& row, const T* x, TapPlace* taps, F&& f) {
  const SlidingWindow& w = row.window;
  const int64_t last_whole = (w.in[2] - 1 + w.pad[2] - (w.taps[2] - 1) * w.dilation[2]) / w.stride[2];
  for (int64_t o = 0, outputs = 1; o < w.out[2]; o += outputs) {
    const TapRange along = taps_inside(w, 2, o);
    const bool is_whole = along.last - along.first == w.taps[2];
    outputs = is_whole ? std::min(last_whole + 1, w.out[2]) - o : 1;
    f(OutputRun<T>{x, w.stride[2] * row.channels, outputs, row.channels, taps, find_taps(row, o, along, taps)}, o);
  }
}

/// Outputs side by side in a tile of a TapRow: their sums and the filters of a row of taps fit the registers. Rows of
/// images are often multiples of 7 long.
template <class T>
inline constexpr int kRowOutputs = std::clamp(Simd<T>::kSums * 2 / 3 / Simd<T>::kPanelVectors, 1, 7);

/// Elements of a row of the image that a tile reads.
template <TapRow kRow, class T>
inline constexpr int kRowElements = (kRowOutputs<T> - 1) * kRow.stride + (kRow.taps - 1) * kRow.dilation + 1;

/// A tile of a row of outputs: where it begins, how many outputs it has, and which of the elements that it reads lie
/// inside the image.
struct RowTile {
  int64_t image, m;
  int outputs, first_inside, last_inside;
};

/// Adds a row of taps to the sums of a tile. Elements outside are left out where `kEdge`.
template <TapRow kRow, bool kEdge, class T, int U, int V, class Vector>
[[gnu::always_inline]] inline void add_tap_row(Vector (&sum)[U][V], const T* x, const T* filters, const RowTile& tile) {
  constexpr int kLanes = Simd<T>::kLanes;
  Vector factor[kRow.taps][V];
#pragma GCC unroll 8
  for (int t = 0; t < kRow.taps; ++t)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      factor[t][v] = *reinterpret_cast<const Vector*>(filters + t * kRow.channels + v * kLanes);
#pragma GCC unroll 64
  for (int i = 0; i < kRowElements<kRow, T>; ++i) {
    if (kEdge && (i < tile.first_inside || i >= tile.last_inside)) continue;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const Vector element = *reinterpret_cast<const Vector*>(x + i * kRow.channels + v * kLanes);
#pragma GCC unroll 8
      for (int u = 0; u < U; ++u) {
        const int ahead = i - u * kRow.stride, t = ahead / kRow.dilation;
        if (ahead >= 0 && ahead % kRow.dilation == 0 && t < kRow.taps) sum[u][v] += element * factor[t][v];
      }
    }
  }
}

/// The rows of taps of a row of outputs, its filters, and where its results go.
template <class T, class Put>
struct ConvolvedRow {
  const T *x, *filters;  // of the first channel
  const TapPlace *first, *end;
  const Put put;  // a copy, as that of TilePut
};

/// Computes a tile of the panel of channels from n on, of which the first `kSkip` are not put. At an edge sums come
/// from memory: how many outputs there are is known at run time only.
template <TapRow kRow, bool kEdge, int64_t kSkip, class T, class Put>
[[gnu::always_inline]] inline void put_row_tile(const ConvolvedRow<T, Put>& row, const RowTile& tile, int64_t n) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  constexpr int U = kRowOutputs<T>, V = S::kPanelVectors;
  constexpr std::integral_constant<int64_t, kPanel - kSkip> kWidth;
  const T *const x = row.x + (tile.image + n), *const filters = row.filters + n;
  Vector sum[U][V] = {};
  for (const TapPlace* place = row.first; place != row.end; ++place)
    add_tap_row<kRow, kEdge>(sum, x + place->image, filters + place->filter, tile);
  alignas(64) T sums[U][kPanel];
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) *reinterpret_cast<Vector*>(sums[u] + v * S::kLanes) = sum[u][v];
  for (int u = 0; u < (kEdge ? tile.outputs : U); ++u) row.put(tile.m + u, n + kSkip, kWidth, sums[u] + kSkip);
}

/// A tile of the channels first .. last, panels of them side by side, so that lines of memory are read in order.
template <TapRow kRow, bool kEdge, class T, class Put>
[[gnu::noinline]] void put_row_tiles(const ConvolvedRow<T, Put> row, const RowTile tile, int64_t first, int64_t last) {
  constexpr int64_t kWhole = kRow.channels / kPanel * kPanel, kLast = kRow.channels - kPanel;
  for (; first < std::min(last, kWhole); first += kPanel) put_row_tile<kRow, kEdge, 0>(row, tile, first);
  if constexpr (kWhole < kRow.channels)  // the last panel begins early enough to lie inside
    if (last > kWhole) put_row_tile<kRow, kEdge, kWhole - kLast>(row, tile, kLast);
}

/// A row of outputs, the first of which is output m.
template <TapRow kRow, class T, class Put>
void convolve_row(const SlidingWindow& w, const ConvolvedRow<T, Put>& row, int64_t m) {
  constexpr int64_t kTogether = 128;  // channels: their filters and rows of the image stay in the nearest cache
  constexpr int64_t kElements = kRowElements<kRow, T>, kOutputs = kRowOutputs<T>;
  for (int64_t n = 0; n < kRow.channels; n += kTogether)
    for (int64_t o = 0; o < w.out[2]; o += kOutputs) {
      const int64_t begin = w.at(2, o, 0), outputs = std::min(kOutputs, w.out[2] - o);
      const int64_t first = std::clamp<int64_t>(-begin, 0, kElements);
      const int64_t last = std::clamp<int64_t>(w.in[2] - begin, 0, kElements);
      const RowTile tile{begin * kRow.channels, m + o, int(outputs), int(first), int(last)};
      const int64_t end = std::min(n + kTogether, kRow.channels);
      if (first == 0 && last == kElements && outputs == kOutputs)
        put_row_tiles<kRow, false>(row, tile, n, end);
      else
        put_row_tiles<kRow, true>(row, tile, n, end);
    }
}

/// What `combine` makes of the taps of N vectors of `kWidth` channels, a power of two.
template <int kWidth, int N, class T, class Combine>
[[gnu::always_inline]] inline void combine_taps(const T* x, const TapPlace* taps, int64_t count, T identity,
                                                const Combine& combine, T* results) {
  typedef T Vector __attribute__((vector_size(kWidth * sizeof(T)), aligned(sizeof(T)), may_alias));
  Vector all[N];
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) all[v] = Vector{} + identity;
  for (const TapPlace* const end = taps + count; taps != end; ++taps)
#pragma GCC unroll 8
    for (int v = 0; v < N; ++v)
      all[v] = combine(all[v], *reinterpret_cast<const Vector*>(x + taps->image + v * kWidth));
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) *reinterpret_cast<Vector*>(results + v * kWidth) = all[v];
}

/// The same of less than a panel: vectors, then as many channels as half of one has, and so on.
template <class T, int kWidth = Simd<T>::kLanes, class Combine>
void combine_few(const T* x, const TapPlace* taps, int64_t count, T identity, const Combine& combine, int64_t width,
                 T* results) {
  for (; width >= kWidth; x += kWidth, results += kWidth, width -= kWidth)
    combine_taps<kWidth, 1>(x, taps, count, identity, combine, results);
  if constexpr (kWidth > 1) combine_few<T, kWidth / 2>(x, taps, count, identity, combine, width, results);
}

/// The outputs of a run of a pool, all channels, a panel or a vector at a time; the first of them is output m. `put` is
/// a copy, as that of TilePut.
template <class T, class Combine, class Put>
void pool_run(const OutputRun<T>& run, T identity, int64_t m, const Combine& combine, Put put) {
  constexpr int64_t kTogether = std::max<int64_t>(kPanel, Simd<T>::kLanes);
  alignas(64) T results[kTogether];
  for (int64_t o = 0; o < run.outputs; ++o)
    for (int64_t n = 0; n < run.channels; n += kTogether) {
      const int64_t width = std::min(kTogether, run.channels - n);
      const T* from = run.x + o * run.stride + n;
      if (width == kTogether)
        combine_taps<Simd<T>::kLanes, kTogether / Simd<T>::kLanes>(from, run.taps, run.tap_count, identity, combine,
                                                                   results);
      else
        combine_few(from, run.taps, run.tap_count, identity, combine, width, results);
      for (int64_t c = 0; c < width; c += kPanel) put_row(m + o, n + c, std::min(kPanel, width - c), results + c, put);
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
  team.parallel(
      batch * window.out[0] * window.out[1], detail::window_grain(window, channels), [&](int64_t begin, int64_t end) {
        const Scratch<detail::TapPlace> taps(window.tap_count());
        detail::each_window_row(
            window, channels, begin, end, [&](const detail::WindowRow& row, int64_t image, int64_t m) {
              detail::each_run(row, x + image, taps.get(),
                               [&](const auto& run, int64_t o) { detail::convolve_run(run, filters, m + o, put); });
            });
      });
}

/// The same of windows whose rows of taps are those of kRow.
template <TapRow kRow, class T, class Put>
void convolve_channels(Team& team, const SlidingWindow& window, int64_t batch, const T* x, const T* filters,
                       const Put& put) {
  static_assert(kRow.channels >= kPanel);
  const int64_t grain = detail::window_grain(window, kRow.channels);
  team.parallel(batch * window.out[0] * window.out[1], grain, [&](int64_t begin, int64_t end) {
    const Scratch<detail::TapPlace> rows(window.taps[0] * window.taps[1]);
    detail::each_window_row(window, kRow.channels, begin, end,
                            [&](const detail::WindowRow& row, int64_t image, int64_t m) {
                              detail::TapPlace* last = rows.get();
                              row.each_row([&](int64_t from, int64_t taps) { *last++ = {from, taps}; });
                              detail::convolve_row<kRow>(
                                  window, detail::ConvolvedRow<T, Put>{x + image, filters, rows.get(), last, put}, m);
                            });
  });
}

/// Pools: `combine` (a maximum, a sum), of vectors of T, over the taps inside the input, from `identity` on. Calls
/// put(m, n0, width, results, taps), where taps is how many lay inside.
template <class T, class Combine, class Put>
void pool_channels(Team& team, const SlidingWindow& window, int64_t batch, int64_t channels, const T* x, T identity,
                   Combine&& combine, Put&& put) {
  team.parallel(
      batch * window.out[0] * window.out[1], detail::window_grain(window, channels), [&](int64_t begin, int64_t end) {
        const Scratch<detail::TapPlace> taps(window.tap_count());
        detail::each_window_row(
            window, channels, begin, end, [&](const detail::WindowRow& row, int64_t image, int64_t m) {
              detail::each_run(row, x + image, taps.get(), [&](const auto& run, int64_t o) {
                const auto put_taps = [put, taps = run.tap_count](int64_t at, int64_t n0, auto width, const T* all) {
                  put(at, n0, width, all, taps);
                };
                detail::pool_run(run, identity, m + o, combine, put_taps);
              });
            });
      });
}

}  // namespace weft

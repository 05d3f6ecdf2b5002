// Windows over images with channels innermost that treat each channel separately: depthwise convolutions and pools.
// Taps outside of the input are skipped, so that no image is copied.
//
//   x        [batch][z][y][x][channels]
//   filters  [z taps][y taps][x taps][channels]
//   result   put(m, n0, width, ...) for up to 16 channels from n0 on of output m, counted over all images
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "weft/channel_tiles.h"
#include "weft/math.h"
#include "weft/scratch.h"
#include "weft/sliding_window.h"
#include "weft/sum_type.h"

namespace weft {

namespace detail {

/// The rows of the image and of the filters that one row of outputs reads. Offsets count elements.
struct WindowRow {
  const SlidingWindow& window;
  int64_t channels;
  TapRange z, y;                    // the taps that lie inside
  int64_t image, filter;            // where the first row of taps begins
  int64_t image_step, filter_step;  // from one row of taps to the next
  int64_t image_turn, filter_turn;  // added after the last row of a plane of taps

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

/// The taps of an output of a row that has the taps `along` inside; returns how many.
inline int64_t find_taps(const WindowRow& row, int64_t output, TapRange along, TapPlace* taps) {
  int64_t count = 0;
  row.each_row([&](int64_t image, int64_t filter) {
    for (int64_t t = along.first; t < along.last; ++t)
      taps[count++] = {image + row.window.at(2, output, t) * row.channels, filter + t * row.channels};
  });
  return count;
}

/// Neighbouring outputs, or panels of 16 channels of one output, whose number keeps the vector units busy.
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

/// The most taps whose products are added in sequence.
inline constexpr int64_t kMostTaps = 2 * kAddedInTurn;

template <class T, int kCount, class Sums>
void sum_taps(const TapPlace* taps, int64_t count, const Sums& sums, T* to);

/// Sums very many taps as two halves, so that the sums keep their digits.
template <class T, int kCount, class Sums>
[[gnu::noinline]] void sum_halves(const TapPlace* taps, int64_t count, const Sums& sums, T* to) {
  alignas(64) T more[kCount] = {};
  sum_taps<T, kCount>(taps, count / 2, sums, to);
  sum_taps<T, kCount>(taps + count / 2, count - count / 2, sums, more);
  for (int64_t i = 0; i < kCount; ++i) to[i] += more[i];
}
/// kCount sums, which `sums(first tap, taps, to)` computes.
template <class T, int kCount, class Sums>
void sum_taps(const TapPlace* taps, int64_t count, const Sums& sums, T* to) {
  if (count > kMostTaps) return sum_halves<T, kCount>(taps, count, sums, to);
  sums(taps, count, to);
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
  constexpr int kCount = U * P * int(kPanel);
  alignas(64) T sums[kCount];
  for (; first < last; first += U) {
    const auto sum = [&](const TapPlace* taps, int64_t count, T* to) {
      channel_tile<T, U, P>(run.x + first * run.stride + n, run.stride, taps, count, filters + n, to);
    };
    sum_taps<T, kCount>(run.taps, run.tap_count, sum, sums);
    for (int64_t u = 0; u < U; ++u)
      for (int64_t p = 0; p < P; ++p)
        put_row(m + first + u, n + p * kPanel + skip, kPanel - skip, sums + (u * P + p) * kPanel + skip, put);
  }
}

/// The same of fewer channels than a panel.
template <class T, int U, class Put>
void put_few(const OutputRun<T>& run, const T* filters, int64_t first, int64_t last, int64_t m, Put put) {
  constexpr int kCount = U * int(kPanel);
  alignas(64) T sums[kCount] = {};
  for (; first < last; first += U) {
    const auto sum = [&](const TapPlace* taps, int64_t count, T* to) {
      few_channel_sums<T, U>(run.x + first * run.stride, run.stride, taps, count, filters, run.channels, to);
    };
    sum_taps<T, kCount>(run.taps, run.tap_count, sum, sums);
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

/// Whether a lane of a vector of 0 and -1 is -1.
template <class Lanes>
[[gnu::always_inline]] inline bool has_any(const Lanes& lanes) {
  using Word = std::conditional_t<sizeof(Lanes) % 8 == 0, uint64_t, uint32_t>;
  typedef Word Words __attribute__((vector_size(sizeof(Lanes))));
  const Words words = (Words)lanes;
  Word any = 0;
#pragma GCC unroll 8
  for (size_t w = 0; w < sizeof(Lanes) / sizeof(Word); ++w) any |= words[w];
  return any != 0;
}

/// The largest of the taps of N vectors of `kWidth` channels. True if the sum of some channel's taps is NaN: the
/// channel has a NaN, which the instruction for the larger of two may have lost, or both infinities.
template <int kWidth, int N, class T>
[[gnu::always_inline]] inline bool largest_of_taps(const T* x, const TapPlace* taps, int64_t count, T identity,
                                                   T* results) {
  typedef T Vector __attribute__((vector_size(kWidth * sizeof(T)), aligned(sizeof(T)), may_alias));
  Vector largest[N], sum[N] = {};
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) largest[v] = Vector{} + identity;
  for (const TapPlace* const end = taps + count; taps != end; ++taps)
#pragma GCC unroll 8
    for (int v = 0; v < N; ++v) {
      const Vector tap = *reinterpret_cast<const Vector*>(x + taps->image + v * kWidth);
      largest[v] = tap > largest[v] ? tap : largest[v];
      sum[v] += tap;
    }
  auto is_lost = sum[0] != sum[0];
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) {
    *reinterpret_cast<Vector*>(results + v * kWidth) = largest[v];
    is_lost |= sum[v] != sum[v];
  }
  return has_any(is_lost);
}

template <int kWidth, int N, class T, class Combine>
void combine_taps(const T* x, const TapPlace* taps, int64_t count, T identity, const Combine& combine, T* results);

/// The same of very many taps: of either half, so that sums of them keep their digits.
template <int kWidth, int N, class T, class Combine>
[[gnu::noinline]] void combine_halves(const T* x, const TapPlace* taps, int64_t count, T identity,
                                      const Combine& combine, T* results) {
  alignas(64) T more[kWidth * N];
  combine_taps<kWidth, N>(x, taps, count / 2, identity, combine, results);
  combine_taps<kWidth, N>(x, taps + count / 2, count - count / 2, identity, combine, more);
  for (int64_t c = 0; c < kWidth * N; ++c) results[c] = combine(results[c], more[c]);
}

/// Reduces the taps of N vectors of `kWidth` channels, a power of two, with `combine`.
template <int kWidth, int N, class T, class Combine>
[[gnu::always_inline]] inline void combine_taps(const T* x, const TapPlace* taps, int64_t count, T identity,
                                                const Combine& combine, T* results) {
  if (!std::is_same_v<Combine, Largest> && std::is_floating_point_v<T> && count > kMostTaps)
    return combine_halves<kWidth, N>(x, taps, count, identity, combine, results);
  typedef T Vector __attribute__((vector_size(kWidth * sizeof(T)), aligned(sizeof(T)), may_alias));
  if constexpr (std::is_same_v<Combine, Largest> && std::is_floating_point_v<T>)
    if (!largest_of_taps<kWidth, N>(x, taps, count, identity, results)) return;
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

/// The same for less than a panel: whole vectors, then half a vector of channels, and so on.
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
  constexpr int64_t kLanes = Simd<T>::kLanes, kLeast = std::max<int64_t>(kPanel, kLanes);
  // Each tap depends on the previous one, so several vectors must be in flight.
  constexpr int64_t kMost = std::max<int64_t>(kLeast, 4 * kLanes);
  alignas(64) T results[kMost];
  for (int64_t o = 0; o < run.outputs; ++o)
    for (int64_t n = 0, width; n < run.channels; n += width) {
      const int64_t left = run.channels - n;
      width = left >= kMost ? kMost : std::min(kLeast, left);
      const T* from = run.x + o * run.stride + n;
      if (width == kMost)
        combine_taps<kLanes, kMost / kLanes>(from, run.taps, run.tap_count, identity, combine, results);
      else if (width == kLeast)
        combine_taps<kLanes, kLeast / kLanes>(from, run.taps, run.tap_count, identity, combine, results);
      else
        combine_few(from, run.taps, run.tap_count, identity, combine, width, results);
      for (int64_t c = 0; c < width; c += kPanel) put_row(m + o, n + c, std::min(kPanel, width - c), results + c, put);
    }
}

/// Rows of outputs that are enough work for a thread.
inline int64_t window_grain(const SlidingWindow& w, int64_t channels) {
  return std::max<int64_t>(1, 65536 / std::max<int64_t>(1, w.out[2] * channels * w.tap_count()));
}

/// The rows of taps of each row of outputs of an image: they are found once for all images and all groups of channels.
class TapTable {
 public:
  TapTable(const SlidingWindow& w, int64_t channels)
      : rows(w.out[0] * w.out[1]), places_(rows * w.taps[0] * w.taps[1]), first_(rows + 1) {
    TapPlace* last = places_.get();
    for (int64_t i = 0; i < rows; ++i) {
      first_[i] = last;
      WindowRow(w, channels, i).each_row([&](int64_t from, int64_t taps) { *last++ = {from, taps}; });
    }
    first_[rows] = last;
  }
  const TapPlace* first(int64_t row) const { return first_[row]; }
  const TapPlace* end(int64_t row) const { return first_[row + 1]; }
  const int64_t rows;

 private:
  Scratch<TapPlace> places_;
  Scratch<const TapPlace*> first_;
};

/// Convolutions of known rows of taps as all kernels of a file share them: items are rows of a group of channels.
template <class T>
WEFT_ONE_COPY void convolve_all_channels(Team& team, const RowTiles<T>& tiles, const SlidingWindow& w, int64_t batch,
                                         const TiledConvolution<T>& convolution, const T* x) {
  constexpr int64_t kRowsTogether = 64, kStripRows = 7;  // a thread reads twice what its rows share with the next
  const int64_t channels = convolution.channels;
  const TapTable table(w, channels);
  const ChannelGroups groups(channels, tiles.channels);
  const int64_t all = batch * table.rows;
  const int64_t items = groups.count * all, strip = std::clamp<int64_t>(items / (2 * team.threads()), 1, kStripRows);
  team.parallel(items, std::max(strip, window_grain(w, channels / groups.count)), [&](int64_t begin, int64_t end) {
    std::array<ConvolvedRow<T>, kRowsTogether> rows;
    while (begin < end) {
      const int64_t group = begin / all, m = begin % all;
      const int64_t count = std::min({kRowsTogether, end - begin, all - m});
      for (int64_t i = 0; i < count; ++i) {
        const int64_t image = (m + i) / table.rows, row = (m + i) % table.rows;
        rows[size_t(i)] = {x + image * w.in_count() * channels, table.first(row), table.end(row), (m + i) * w.out[2]};
      }
      convolve_rows(tiles, w, convolution, std::span<const ConvolvedRow<T>>(rows.data(), size_t(count)), groups[group]);
      begin += count;
    }
  });
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

/// The same of windows whose rows of taps are those of kRow, and of a vector of channels at least.
template <TapRow kRow, int64_t kChannels, class T, class Put>
void convolve_channels(Team& team, const SlidingWindow& window, int64_t batch, const T* x, const T* filters,
                       const Put& put) {
  static_assert(kChannels >= detail::Simd<T>::kLanes);
  const detail::TiledConvolution<T> convolution{kChannels, filters, detail::register_put<kChannels, T>(put)};
  detail::convolve_all_channels<T>(team, detail::row_tiles<kRow, T>(), window, batch, convolution, x);
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

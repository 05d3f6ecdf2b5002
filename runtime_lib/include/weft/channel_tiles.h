// Tiles of depthwise convolutions with channels innermost. A tile is a vector of channels for seven neighbouring
// outputs. The shape of a row of taps is a compile-time constant.
//
// Sums go to the kernel's `put` in registers: a sum has only 9 or 25 products, and a pass through memory would take as
// long. The loops over tiles are compiled once for all kernels of a file, and the usual tiles once for all programs.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "weft/contract.h"
#include "weft/sliding_window.h"
#include "weft/sum_type.h"

namespace weft {

/// The shape of a row of taps, known at compile time.
struct TapRow {
  int taps, stride, dilation;
  bool operator==(const TapRow&) const = default;
};

namespace detail {

/// Offsets in the image and in the filters of a row of taps, or of a tap of the first output of a run.
struct TapPlace {
  int64_t image, filter;
};

/// Neighbouring outputs of a tile. Lengths of image rows are often multiples of 7, and a call passes up to eight
/// vectors in registers. With 16 registers, a row of 7 filters and one element fit beside the sums.
inline constexpr int kTileOutputs = 7;

/// A type-erased pointer to a kernel's `put`, for a vector of channels of the outputs m .. m + outputs of a tile.
/// `last` is for the last vector, which begins early enough to end inside: it skips the channels of the previous
/// vector.
template <class T>
struct RegisterPut {
  // Aligned, unlike that of Simd, so that an argument comes in a register.
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  using Call = void (*)(void* put, int64_t m, int64_t n0, int64_t outputs, Vector, Vector, Vector, Vector, Vector,
                        Vector, Vector);
  Call whole, last;
  void* put;
};

template <int64_t kSkip, class T, class Put, class Vector = typename RegisterPut<T>::Vector>
void put_registers(void* put, int64_t m, int64_t n0, int64_t outputs, Vector a, Vector b, Vector c, Vector d, Vector e,
                   Vector f, Vector g) {
  constexpr std::integral_constant<int64_t, Simd<T>::kLanes - kSkip> kWidth;
  const Put each = *static_cast<const Put*>(put);  // a copy, as that of TilePut
  const Vector all[kTileOutputs] = {a, b, c, d, e, f, g};
#pragma GCC unroll 8
  for (int u = 0; u < kTileOutputs; ++u) {
    if (u >= outputs) return;
    alignas(64) T sums[Simd<T>::kLanes];
    *reinterpret_cast<typename Simd<T>::Vector*>(sums) = all[u];
    each(m + u, n0 + kSkip, kWidth, sums + kSkip);
  }
}

template <int64_t kChannels, class T, class Put>
inline RegisterPut<T> register_put(const Put& put) {
  constexpr int64_t kLeft = kChannels % Simd<T>::kLanes, kSkip = kLeft ? Simd<T>::kLanes - kLeft : 0;
  return {put_registers<0, T, Put>, put_registers<kSkip, T, Put>, const_cast<void*>(static_cast<const void*>(&put))};
}

/// A row of outputs that begins with output m: its image, and the rows of taps inside the image.
template <class T>
struct ConvolvedRow {
  const T* x;
  const TapPlace *first, *end;
  int64_t m;
};

/// The channels first .. last.
struct ChannelRange {
  int64_t first, last;
};

/// A tile of some channels of a row of outputs, and the range of its elements that lies inside the image.
struct RowTile {
  int64_t begin;  // the first element, which may lie before the image's row
  int64_t output, outputs;
  int first_inside, last_inside;
  ChannelRange channels;
};

/// Data shared by all tiles of a convolution.
template <class T>
struct TiledConvolution {
  int64_t channels;
  const T* filters;
  RegisterPut<T> put;
};

/// Elements of a row of the image that a tile reads.
template <TapRow kRow>
inline constexpr int kTileElements = (kTileOutputs - 1) * kRow.stride + (kRow.taps - 1) * kRow.dilation + 1;

/// Channels of a tile: their filters and their elements of the image rows of one tile fit into the first-level cache.
/// Measured on Zen 5, with square windows.
template <TapRow kRow, class T>
inline constexpr int64_t kChannelsTogether = std::clamp<int64_t>(
    30720 / (int64_t{sizeof(T)} * kRow.taps * (kTileElements<kRow> + kRow.taps)) / kPanel * kPanel, kPanel, 128);

/// Loads a vector once. Otherwise g++ loads it again for each product, and a core cannot issue as many loads as
/// products.
template <class T>
[[gnu::always_inline]] inline typename Simd<T>::Vector load_once(const T* at) {
  typename Simd<T>::Vector loaded = *reinterpret_cast<const typename Simd<T>::Vector*>(at);
#if defined(__x86_64__)
  asm("" : "+v"(loaded));
#elif defined(__aarch64__)
  asm("" : "+w"(loaded));
#endif
  return loaded;
}

/// Adds a row of taps to the sums of a tile. Elements outside are left out where `kEdge`.
template <TapRow kRow, bool kEdge, class T>
[[gnu::always_inline]] inline void add_tap_row(typename Simd<T>::Vector (&sum)[kTileOutputs], const T* x,
                                               const T* filters, int64_t channels, const RowTile& tile) {
  using Vector = typename Simd<T>::Vector;
  constexpr int kElements = kTileElements<kRow>;
  Vector factor[kRow.taps];
#pragma GCC unroll 8
  for (int t = 0; t < kRow.taps; ++t) factor[t] = load_once(filters + t * channels);
  const T* third[(kElements + 2) / 3];  // an address may be the sum of two registers, one of them doubled
#pragma GCC unroll 16
  for (int i = 0; i < kElements; i += 3) third[i / 3] = i ? third[i / 3 - 1] + 3 * channels : x;
#pragma GCC unroll 64
  for (int i = 0; i < kElements; ++i) {
    if (kEdge && (i < tile.first_inside || i >= tile.last_inside)) continue;
    const Vector element = load_once(third[i / 3] + i % 3 * channels);
#pragma GCC unroll 8
    for (int u = 0; u < kTileOutputs; ++u) {
      const int ahead = i - u * kRow.stride, t = ahead / kRow.dilation;
      if (ahead >= 0 && ahead % kRow.dilation == 0 && t < kRow.taps) sum[u] += element * factor[t];
    }
  }
}

/// Computes a tile, one vector of channels after another, so that cache lines are read in order.
template <TapRow kRow, bool kEdge, class T>
[[gnu::always_inline]] inline void convolve_tile(const TiledConvolution<T>& convolution, const ConvolvedRow<T>& row,
                                                 const RowTile& at) {
  constexpr int64_t kLanes = Simd<T>::kLanes;
  const RowTile tile = at;
  const auto [channels, filters, put] = convolution;
  const int64_t m = row.m + tile.output, count = row.end - row.first, last = channels - kLanes;
  const TapPlace* const places = row.first;
  const T* const x = row.x + tile.begin * channels;
  for (int64_t n = tile.channels.first; n < tile.channels.last; n += kLanes) {
    const int64_t from = std::min(n, last);
    const T *const image = x + from, *const taps = filters + from;
    typename Simd<T>::Vector sum[kTileOutputs] = {};
    if (kRow.taps <= 3 && count == kRow.taps) {  // a square window inside: without jumps it takes 0.9 of the time
#pragma GCC unroll 4
      for (int i = 0; i < kRow.taps; ++i)
        add_tap_row<kRow, kEdge>(sum, image + places[i].image, taps + places[i].filter, channels, tile);
    } else {
      const int64_t in_turn = part_of(count * kRow.taps) / kRow.taps;
      typename Simd<T>::Vector before[kTileOutputs];  // the sums of the rows before
      asm("" : "=m"(before));                         // g++ does not see that they are written before they are read
      for (int64_t i = 0, end; i < count;) {
        const bool is_first = i == 0;
        for (end = count - i < in_turn ? count : i + in_turn; i < end; ++i)
          add_tap_row<kRow, kEdge>(sum, image + places[i].image, taps + places[i].filter, channels, tile);
#pragma GCC unroll 8
        for (int u = 0; u < kTileOutputs; ++u) {
          if (!is_first) sum[u] += before[u];
          if (end < count) before[u] = sum[u], sum[u] = typename Simd<T>::Vector{};
        }
      }
    }
    (from == n ? put.whole : put.last)(put.put, m, from, tile.outputs, sum[0], sum[1], sum[2], sum[3], sum[4], sum[5],
                                       sum[6]);
  }
}
/// convolve_tile as a function of its own.
template <TapRow kRow, bool kEdge, class T>
[[gnu::noinline]] void row_tile(const TiledConvolution<T>& convolution, const ConvolvedRow<T>& row,
                                const RowTile& tile) {
  convolve_tile<kRow, kEdge>(convolution, row, tile);
}
/// The same in the runtime library, as library_tile of contract.h.
template <Level kFor, TapRow kRow, bool kEdge, class T>
[[gnu::used]] void library_row_tile(const TiledConvolution<T>& convolution, const ConvolvedRow<T>& row,
                                    const RowTile& tile);

/// The rows of taps that the runtime library has tiles of.
inline constexpr std::array kLibraryRows = {TapRow{3, 1, 1}, TapRow{3, 2, 1}, TapRow{3, 1, 2}, TapRow{5, 1, 1},
                                            TapRow{5, 2, 1}, TapRow{5, 1, 2}, TapRow{7, 1, 1}};
template <TapRow kRow, class T>
constexpr bool has_library_row() {
  return has_library_tiles<T>() && std::is_same_v<T, float> &&
         std::find(kLibraryRows.begin(), kLibraryRows.end(), kRow) != kLibraryRows.end();
}

/// The tile functions of a row of taps, for callers without compile-time knowledge of it.
template <class T>
struct RowTiles {
  using Call = void (*)(const TiledConvolution<T>&, const ConvolvedRow<T>&, const RowTile&);
  Call inside, edge;
  int64_t elements, channels;  // kTileElements, kChannelsTogether
};
template <TapRow kRow, class T>
constexpr RowTiles<T> row_tiles() {
  constexpr int64_t kElements = kTileElements<kRow>, kChannels = kChannelsTogether<kRow, T>;
  if constexpr (has_library_row<kRow, T>())
    return {library_row_tile<kLevel, kRow, false, T>, library_row_tile<kLevel, kRow, true, T>, kElements, kChannels};
  else
    return {row_tile<kRow, false, T>, row_tile<kRow, true, T>, kElements, kChannels};
}

/// Some channels of rows of outputs, a strip of tiles after the other, from the first row down: what neighbouring rows
/// read twice is in the nearest cache then.
template <class T>
void convolve_rows(const RowTiles<T>& tiles, const SlidingWindow& w, const TiledConvolution<T>& convolution,
                   std::span<const ConvolvedRow<T>> rows, const ChannelRange& channels) {
  for (int64_t o = 0; o < w.out[2]; o += kTileOutputs) {
    const int64_t begin = w.at(2, o, 0);
    const int64_t first = std::clamp<int64_t>(-begin, 0, tiles.elements);
    const int64_t last = std::clamp<int64_t>(w.in[2] - begin, 0, tiles.elements);
    const RowTile tile{begin, o, std::min<int64_t>(kTileOutputs, w.out[2] - o), int(first), int(last), channels};
    const auto call = first == 0 && last == tiles.elements ? tiles.inside : tiles.edge;
    for (const ConvolvedRow<T>& row : rows) call(convolution, row, tile);
  }
}

/// Groups of about `together` channels each.
struct ChannelGroups {
  int64_t channels, together, count;
  ChannelGroups(int64_t channels, int64_t together)
      : channels(channels), together(together), count(std::max<int64_t>(1, (channels + together / 2) / together)) {}
  ChannelRange operator[](int64_t i) const { return {i * together, i + 1 == count ? channels : (i + 1) * together}; }
};

}  // namespace detail

}  // namespace weft

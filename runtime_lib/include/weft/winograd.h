// Convolution with windows of 3 x 3 elements and stride 1 by Winograd's minimal filtering, of images whose channels lie
// innermost (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015). A tile of M x M outputs is
//
//   y = A^T [(G g G^T) * (B^T d B)] A
//
// of (M + 2) x (M + 2) elements d of a channel and its filter g. Summed over channels, the product * becomes one
// product of matrices for each of the (M + 2)^2 points: tiles x channels times channels x filters. That is 4 times (M =
// 4) or 2.25 times (M = 2) less to multiply than the definition. Over 200 random layers (the test of this header) the
// error is below 2e-5 of the largest result with M = 4. With M = 2 it is below 2e-6, like that of a direct convolution.
// Images or filters that nearly cancel can exceed these bounds, as they can with the definition. An infinity in the
// image makes all outputs of its tiles NaN.
//
//   x        [batch][y][x][channels]
//   filters  [ceil(filters / 16)][points][channels][16]: G g G^T, zeros in the padding of the last panel
//   result   put(m, n0, width, sums) as in contract.h: m counts the outputs of all images
#pragma once
#include <algorithm>
#include <cstdint>

#include "weft/direct_convolution.h"
#include "weft/scratch.h"

namespace weft {

namespace detail {

/// The transforms of one line. Results are written `step` apart.
template <int M>
struct WinogradLine;

/// At the points 0, 1, -1 and infinity.
template <>
struct WinogradLine<2> {
  template <class Vector>
  [[gnu::always_inline]] static void input(const Vector* d, Vector* out, int step) {
    out[0] = d[0] - d[2];
    out[step] = d[1] + d[2];
    out[2 * step] = d[2] - d[1];
    out[3 * step] = d[1] - d[3];
  }
  template <class Vector>
  [[gnu::always_inline]] static void output(const Vector* p, Vector* out, int step) {
    out[0] = p[0] + p[1] + p[2];
    out[step] = p[1] - p[2] - p[3];
  }
};

/// At the points 0, 1, -1, 2, -2 and infinity.
template <>
struct WinogradLine<4> {
  template <class Vector>
  [[gnu::always_inline]] static void input(const Vector* d, Vector* out, int step) {
    const Vector a = d[4] - 4 * d[2], b = d[3] - 4 * d[1], c = d[4] - d[2], e = 2 * (d[3] - d[1]);
    out[0] = 4 * d[0] - 5 * d[2] + d[4];
    out[step] = a + b;
    out[2 * step] = a - b;
    out[3 * step] = c + e;
    out[4 * step] = c - e;
    out[5 * step] = 4 * d[1] - 5 * d[3] + d[5];
  }
  template <class Vector>
  [[gnu::always_inline]] static void output(const Vector* p, Vector* out, int step) {
    const Vector a = p[1] + p[2], b = p[1] - p[2], c = p[3] + p[4], e = p[3] - p[4];
    out[0] = p[0] + a + c;
    out[step] = b + 2 * e;
    out[2 * step] = a + 4 * c;
    out[3 * step] = b + 8 * e + p[5];
  }
};

/// The division of the outputs of all images into tiles, and of the tiles into blocks that are multiplied at a time.
template <class T, int M>
struct WinogradTiles {
  static constexpr int kSide = M + 2, kPoints = kSide * kSide;
  static constexpr int64_t kWidth = OutputTile<T>::kPanels * kPanel;  // filters that are multiplied at a time
  /// Lines of points whose length is a power of two begin at one address modulo 4 KB, of which a cache holds 8.
  static constexpr int64_t kGap = 16;

  const SlidingWindow& window;
  const Convolution& shape;
  const int64_t rows, columns, count, filter_groups, block;

  WinogradTiles(const SlidingWindow& w, const Convolution& c, int threads)
      : window(w),
        shape(c),
        rows((w.out[1] + M - 1) / M),
        columns((w.out[2] + M - 1) / M),
        count(c.batch * rows * columns),
        filter_groups((c.filters + kWidth - 1) / kWidth),
        block(tiles_of_a_block(threads)) {}

  /// Elements of one point of a block of tiles, of all its points, and of one point of its products.
  int64_t line() const { return block * shape.channels + kGap; }
  int64_t block_points() const { return kPoints * line(); }
  int64_t product_line() const { return block * kWidth + kGap; }

  /// The first row and column of a tile's outputs, and the image that it belongs to.
  struct Place {
    int64_t y, x, image;
  };
  Place place(int64_t tile) const { return {tile / columns % rows * M, tile % columns * M, tile / (rows * columns)}; }

 private:
  /// As many as fit into the second-level cache, but enough to amortise reading the filters. Fewer if some threads
  /// would have no work.
  int64_t tiles_of_a_block(int threads) const {
    constexpr int64_t kCache = int64_t{1} << 19, kLeast = 64, kMost = 128;
    const int64_t most = std::clamp(kCache / (kPoints * shape.channels * int64_t{sizeof(T)}), kLeast, kMost);
    const int64_t wanted = (threads + filter_groups - 1) / filter_groups;
    const int64_t useful = std::max<int64_t>(1, count / OutputTile<T>::kRows);
    const int64_t blocks = std::max((count + most - 1) / most, std::min(wanted, useful));
    return (count + blocks - 1) / blocks;
  }
};

/// B^T d B of all channels of one tile: point p goes to out + p * line. `zeros`: a zero for each channel, for elements
/// outside of the image.
template <class T, int M>
void transform_input(const WinogradTiles<T, M>& tiles, int64_t tile, const T* x, const T* zeros, T* out) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  constexpr int X = WinogradTiles<T, M>::kSide;
  const SlidingWindow& w = tiles.window;
  const int64_t channels = tiles.shape.channels, line = tiles.line();
  const auto [y, x0, image] = tiles.place(tile);
  const T* at[X * X];
  for (int i = 0; i < X; ++i)
    for (int j = 0; j < X; ++j) {
      const int64_t row = y + i - w.pad[1], column = x0 + j - w.pad[2];
      const bool is_inside = row >= 0 && row < w.in[1] && column >= 0 && column < w.in[2];
      at[i * X + j] = is_inside ? x + ((image * w.in[1] + row) * w.in[2] + column) * channels : zeros;
    }
  for (int64_t c = 0; c < channels; c += S::kLanes) {
    Vector half[X * X], in[X], points[X];
#pragma GCC unroll 8
    for (int j = 0; j < X; ++j) {
#pragma GCC unroll 8
      for (int i = 0; i < X; ++i) in[i] = *reinterpret_cast<const Vector*>(at[i * X + j] + c);
      WinogradLine<M>::input(in, half + j, X);
    }
#pragma GCC unroll 8
    for (int i = 0; i < X; ++i) {
      WinogradLine<M>::input(half + i * X, points, 1);
#pragma GCC unroll 8
      for (int j = 0; j < X; ++j) *reinterpret_cast<Vector*>(out + (i * X + j) * line + c) = points[j];
    }
  }
}

/// A^T p A of one tile and `width` filters: M * M rows of kWidth sums.
template <class T, int M>
void transform_output(const T* products, int64_t line, int64_t width, T* sums) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  constexpr int X = WinogradTiles<T, M>::kSide;
  for (int64_t n = 0; n < width; n += S::kLanes) {
    Vector half[M * X], points[X], out[M];
#pragma GCC unroll 8
    for (int j = 0; j < X; ++j) {
#pragma GCC unroll 8
      for (int i = 0; i < X; ++i) points[i] = *reinterpret_cast<const Vector*>(products + (i * X + j) * line + n);
      WinogradLine<M>::output(points, half + j, X);
    }
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      WinogradLine<M>::output(half + i * X, out, 1);
#pragma GCC unroll 8
      for (int j = 0; j < M; ++j)
        *reinterpret_cast<Vector*>(sums + (i * M + j) * WinogradTiles<T, M>::kWidth + n) = out[j];
    }
  }
}

/// The products of all points of `count` tiles with P panels of filters, P * 16 for each tile.
template <class T, int M, int P>
void multiply_points(const WinogradTiles<T, M>& tiles, const T* points, int64_t count, const T* panel, T* products) {
  constexpr int R = OutputTile<T>::kRows, kPoints = WinogradTiles<T, M>::kPoints;
  const int64_t channels = tiles.shape.channels, panel_stride = kPoints * channels * kPanel;
  const TapRuns runs{.total = 1,
                     .length = channels,
                     .step = 0,
                     .in_row = 1,
                     .row_turn = 0,
                     .in_plane = 1,
                     .plane_turn = 0,
                     .part = part_of(channels)};
  const int64_t parts = (count + R - 1) / R, least = count / parts, larger = count % parts;
  const int64_t steps = std::max<int64_t>(1, channels / OutputTile<T>::kSteps);
  const int64_t bytes = channels * kPanel * P * int64_t{sizeof(T)};
  int64_t first[R];
  for (int r = 0; r < R; ++r) first[r] = r * channels;
  for (int p = 0; p < kPoints; ++p, panel += channels * kPanel) {
    const T* row = points + p * tiles.line();
    T* sums = products + p * tiles.product_line();
    Prefetch<T> next{reinterpret_cast<const char*>(panel) + bytes, bytes / (steps * parts) + 1};
    for (int64_t t = 0; t < parts; ++t, next.at += next.bytes * steps) {
      const int64_t rows = least + (t < larger);
      output_tile_of<T, R, P>(rows, row, first, runs, panel, panel_stride, sums, next, nullptr);
      row += rows * channels, sums += rows * P * kPanel;
    }
  }
}

/// Puts those outputs of a tile that exist.
template <class T, int M>
void put_outputs(const WinogradTiles<T, M>& tiles, int64_t tile, int64_t n0, int64_t width, const T* sums,
                 const TilePut<T>& put) {
  constexpr int64_t kWidth = WinogradTiles<T, M>::kWidth;
  const SlidingWindow& w = tiles.window;
  const auto [y, x, image] = tiles.place(tile);
  const int64_t rows = std::min<int64_t>(M, w.out[1] - y), columns = std::min<int64_t>(M, w.out[2] - x);
  for (int64_t i = 0; i < rows; ++i)
    put(image * w.out_count() + (y + i) * w.out[2] + x, n0, columns, width, sums + i * M * kWidth, kWidth);
}

/// All outputs of `count` tiles and `width` filters from n0 on. `panel`: the first of them, at its first point.
template <class T, int M, int P>
void finish_tiles(const WinogradTiles<T, M>& tiles, const T* points, int64_t tile, int64_t count, const T* panel,
                  int64_t n0, int64_t width, T* products, const TilePut<T>& put) {
  alignas(64) T sums[M * M * WinogradTiles<T, M>::kWidth];
  multiply_points<T, M, P>(tiles, points, count, panel, products);
  for (int64_t t = 0; t < count; ++t) {
    transform_output<T, M>(products + t * P * kPanel, tiles.product_line(), width, sums);
    put_outputs(tiles, tile + t, n0, width, sums, put);
  }
}

/// The part of a convolution that all kernels of a file share.
template <int M, class T>
WEFT_ONE_COPY void winograd_all(Team& team, const SlidingWindow& window, const Convolution& c, const T* x,
                                const T* filters, const TilePut<T>& put) {
  using Tiles = WinogradTiles<T, M>;
  if (c.batch * window.out_count() == 0) return;  // a rank without rows
  const Tiles tiles(window, c, team.threads());
  const int64_t at_a_time = std::min(tiles.count, tiles.block * team.threads());
  const Scratch<T> points((at_a_time + tiles.block - 1) / tiles.block * tiles.block_points()), zeros(c.channels);
  std::fill_n(zeros.get(), c.channels, T(0));
  for (int64_t begun = 0; begun < tiles.count; begun += at_a_time) {
    const int64_t held = std::min(at_a_time, tiles.count - begun), blocks = (held + tiles.block - 1) / tiles.block;
    team.parallel(held, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t)
        transform_input(tiles, begun + t, x, zeros.get(),
                        points.get() + t / tiles.block * tiles.block_points() + t % tiles.block * c.channels);
    });
    team.parallel(blocks * tiles.filter_groups, 1, [&](int64_t begin, int64_t end) {
      const Scratch<T> products(Tiles::kPoints * tiles.product_line());
      for (int64_t i = begin; i < end; ++i) {
        const int64_t block = i / tiles.filter_groups, n0 = i % tiles.filter_groups * Tiles::kWidth;
        const int64_t first = block * tiles.block, count = std::min(tiles.block, held - first);
        const int64_t width = std::min(Tiles::kWidth, c.filters - n0);
        const T* const from = points.get() + block * tiles.block_points();
        const T* const panel = filters + n0 * Tiles::kPoints * c.channels;
        if (width <= kPanel)
          finish_tiles<T, M, 1>(tiles, from, begun + first, count, panel, n0, width, products.get(), put);
        else
          finish_tiles<T, M, OutputTile<T>::kPanels>(tiles, from, begun + first, count, panel, n0, width,
                                                     products.get(), put);
      }
    });
  }
}

}  // namespace detail

/// Calls put for each output and up to 16 filters, once. M: 2 or 4. The window has 3 x 3 taps, stride and dilation 1;
/// there is one group, and a multiple of 16 channels. An output has the same bits however many threads there are.
template <int M, class T, class Put>
[[gnu::always_inline]] inline void convolve_winograd(Team& team, const SlidingWindow& window, const Convolution& c,
                                                     const T* x, const T* filters, Put&& put) {
  detail::winograd_all<M, T>(team, window, c, x, filters, detail::tile_put<T>(put, c.filters));
}

}  // namespace weft

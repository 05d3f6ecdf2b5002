// Convolution without unfolding: images lie with their channels innermost, filters in the panels of contract.h.
//
//   x        [batch][z][y][x][groups * channels]
//   filters  [groups][ceil(filters / 16)][z taps][y taps][x taps][channels][16], zero padded in the last panel
//   result   put(m, n0, width, sums) as in contract.h: m counts the outputs of all images, n0 the filters of all groups
//
// A tile of outputs is a product of matrices whose rows are read in place: the taps of a row of the image, times their
// channels, are one run of memory. An image with padding is first copied into one with a border of zeros, so that no
// tile needs bounds checks. Each sum adds its terms in the order of taps and channels, for any tile, number of threads
// and instruction set.
#pragma once
#include <algorithm>
#include <cstdint>

#include "weft/bordered_image.h"
#include "weft/contract.h"
#include "weft/output_tile.h"
#include "weft/scratch.h"
#include "weft/sliding_window.h"

namespace weft {

/// Elements of the packed filters.
constexpr int64_t packed_filter_count(const SlidingWindow& w, const Convolution& c) {
  return c.groups * packed_count(c.filters, w.tap_count() * c.channels);
}

/// Packs filters that lie [groups * filters][channels][taps]. The compiler does the same to constants.
template <class T>
void pack_filters(const SlidingWindow& w, const Convolution& c, const T* filters, T* out) {
  const int64_t taps = w.tap_count();
  for (int64_t group = 0; group < c.groups; ++group)
    for (int64_t first = 0; first < c.filters; first += kPanel)
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t channel = 0; channel < c.channels; ++channel)
          for (int64_t j = 0; j < kPanel; ++j)
            *out++ = first + j < c.filters
                         ? filters[((group * c.filters + first + j) * c.channels + channel) * taps + tap]
                         : T(0);
}

namespace detail {

/// The values from which sums of bytes start: -(zero + shift) times the sum of each column of P panels.
template <class T, int P>
void find_start(const T* panel, int64_t panel_stride, int64_t depth, int32_t zero, int32_t* start) {
  using S = Simd<int32_t>;
  using Vector = typename S::Vector;
  constexpr int V = S::kPanelVectors;
  Vector sum[P * V] = {};
  for (int64_t k = 0; zero != 0 && k < depth; ++k)
#pragma GCC unroll 16
    for (int v = 0; v < P * V; ++v)
      add_products<T>(sum[v], Vector{} + 0x01010101,
                      *reinterpret_cast<const Vector*>(panel + v / V * panel_stride + k * kPanel + v % V * S::kLanes));
  for (int v = 0; v < P * V; ++v) *reinterpret_cast<Vector*>(start + int64_t{v} * S::kLanes) = sum[v] * -zero;
}

/// Outputs m0 .. m1 of some images: where the first term of each lies.
inline void find_first_terms(const SlidingWindow& w, const BorderedImage& image, int64_t m0, int64_t m1,
                             int64_t* first) {
  int64_t at[3] = {m0 / (w.out[1] * w.out[2]) % w.out[0], m0 / w.out[2] % w.out[1], m0 % w.out[2]};
  int64_t number = m0 / w.out_count();
  for (int64_t m = m0; m < m1; ++m) {
    const int64_t row = at[0] * w.stride[0] * image.extent[1] + at[1] * w.stride[1];
    *first++ = number * image.count() + (row * image.extent[2] + at[2] * w.stride[2]) * image.channels;
    if (++at[2] < w.out[2]) continue;
    at[2] = 0;
    if (++at[1] < w.out[1]) continue;
    at[1] = 0;
    if (++at[0] < w.out[0]) continue;
    at[0] = 0, ++number;
  }
}

/// Some runs of the taps. The first run begins `image` elements after an output's first term, and its filters `panel`
/// elements after the first filters.
struct TapPart {
  TapRuns runs;
  int64_t image, panel;
};

/// Some images, and how their outputs are cut into items: blocks of outputs, then pairs of panels of all groups.
template <class T>
struct ConvolutionItems {
  static constexpr int kRows = OutputTile<T>::kRows, kPanels = OutputTile<T>::kPanels;
  static constexpr int64_t kMostOutputs = 240;

  const SlidingWindow& window;
  const Convolution& shape;
  const BorderedImage image;
  const TapRuns runs;
  const int32_t zero;  // zero point of bytes, taken as unsigned
  const int64_t first_of_all, outputs, depth, blocks, panel_groups, grain;
  const bool has_idle_rows;

  ConvolutionItems(const SlidingWindow& w, const Convolution& c, int64_t first_image, int64_t images, int threads,
                   int32_t zero_byte)
      : window(w),
        shape(c),
        image(bordered_image(w, c)),
        runs(tap_runs(w, c, image)),
        zero(zero_byte),
        first_of_all(first_image * w.out_count()),
        outputs(images * w.out_count()),
        depth(w.tap_count() * c.channels),
        blocks(block_count(threads)),
        panel_groups((c.filters + kPanels * kPanel - 1) / (kPanels * kPanel)),
        grain(least_items()),
        has_idle_rows(leaves_rows_out()) {}

  int64_t count() const { return blocks * shape.groups * panel_groups; }
  /// The runs of outputs m0 .. m1. For large dilations many rows of taps lie outside of the image. Rows that are
  /// outside for all of these outputs are skipped. The lowest row of outputs determines the first row of taps inside,
  /// the highest row the last.
  TapPart part(int64_t m0, int64_t m1) const {
    if (!has_idle_rows) return {runs, 0, 0};
    const int64_t top = m0 / window.out[2], bottom = (m1 - 1) / window.out[2], y = top % window.out[1];
    if (y + bottom - top >= window.out[1]) return {runs, 0, 0};  // of two images
    const int64_t first = taps_inside(window, 1, y + bottom - top).first, last = taps_inside(window, 1, y).last;
    TapPart part{runs, first * window.dilation[1] * image.extent[2] * image.channels,
                 first * window.taps[2] * shape.channels * kPanel};
    part.runs.total = std::max<int64_t>(0, last - first) * runs.in_row;
    part.runs.left_out = first * runs.in_row;
    return part;
  }
  int64_t first_output(int64_t block) const { return outputs * block / blocks; }

 private:
  /// Whether at least a fourth of the rows of taps lie outside. Not for bytes, whose sums start from a correction for
  /// all taps.
  bool leaves_rows_out() const {
    if (is_byte_quad<T> || window.out[0] * window.taps[0] > 1) return false;
    int64_t inside = 0;
    for (int64_t y = 0; y < window.out[1]; ++y) {
      const TapRange rows = taps_inside(window, 1, y);
      inside += rows.last - rows.first;
    }
    return 4 * inside <= 3 * window.out[1] * window.taps[1];
  }
  int64_t block_count(int threads) const {
    const int64_t least = (outputs + kMostOutputs - 1) / kMostOutputs;
    const int64_t wanted = threads == 1 ? 1 : 4 * threads;
    const int64_t columns = shape.groups * ((shape.filters + kPanels * kPanel - 1) / (kPanels * kPanel));
    const int64_t useful = std::max<int64_t>(1, outputs / (int64_t{2} * kRows));
    return std::max(least, std::min(useful, wanted / std::max<int64_t>(1, columns)));
  }
  /// Items that take 2 us or more.
  int64_t least_items() const {
    const int64_t work = int64_t{2} * kPanels * kPanel * depth * (outputs / std::max<int64_t>(1, blocks) + 1);
    return std::max<int64_t>(1, 200000 / std::max<int64_t>(1, work));
  }
};

/// Whether a panel of which no more than half is used has tiles of its own.
template <class T>
inline constexpr bool kHasHalves = OutputTile<T>::kHalf < Simd<SumsOf<T>>::kPanelVectors;

/// Type-erased pointers to a kernel's `put` and `ahead`, as TilePut.
template <class T>
struct OutputPut {
  TilePut<SumsOf<T>> put;
  void (*call_ahead)(void* ahead, int64_t m, int64_t n0, int64_t rows, int64_t columns);
  void* ahead;
};
template <class Ahead>
void look_ahead(void* ahead, int64_t m, int64_t n0, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) (*static_cast<Ahead*>(ahead))(m + r, n0, columns);
}

/// The result that one item computes: outputs m0 .. m1 and some filters, from column n on. `first`: the offset of the
/// first term of each output.
struct OutputPlace {
  int64_t m0, m1, n, columns;
  const int64_t* first;
};

/// Outputs of P panels, in even tiles. kHalf: no more than half of the panel is used.
template <class T, int P, bool kHalf = false>
void convolve_block(const ConvolutionItems<T>& items, OutputPlace at, const T* x, const T* panel,
                    const OutputPut<T>& out) {
  using Tile = OutputTile<T>;
  constexpr int R = kHalf ? Tile::kHalfRows : Tile::kRows, W = P * int(kPanel);
  constexpr int V = kHalf ? Tile::kHalf : P * Simd<SumsOf<T>>::kPanelVectors;
  alignas(64) SumsOf<T> sums[R * W], start[is_byte_quad<T> ? W : 1] = {};
  const Parts tiles(at.m1 - at.m0, (at.m1 - at.m0 + R - 1) / R);
  const int64_t panel_stride = items.depth * kPanel, bytes = panel_stride * P * int64_t{sizeof(T)};
  const int64_t steps = std::max<int64_t>(1, items.depth / Tile::kSteps);
  if constexpr (is_byte_quad<T>) find_start<T, P>(panel, panel_stride, items.depth, items.zero, start);
  Prefetch<T> next{reinterpret_cast<const char*>(panel) + bytes, bytes / (steps * tiles.count) + 1};
  for (int64_t t = 0; t < tiles.count; ++t, next.at += next.bytes * steps) {
    const int64_t rows = tiles.size(t), m = items.first_of_all + at.m0;
    out.call_ahead(out.ahead, m, at.n, rows, at.columns);
    const TapPart part = items.part(at.m0, at.m0 + rows);
    output_tile_of<T, R, P, V>(rows, x + part.image, at.first, part.runs, panel + part.panel, panel_stride, sums, next,
                               start);
    out.put(m, at.n, rows, at.columns, sums, W);
    at.m0 += rows, at.first += rows;
  }
}

/// The widths of tiles that are needed for some number of filters. 0: the number is not known.
struct TileWidths {
  bool wide, narrow;
};
/// The most columns of a narrow tile: those of one panel of two, or of half a panel.
template <class T>
inline constexpr int64_t kNarrow = OutputTile<T>::kPanels > 1 ? kPanel
                                   : kHasHalves<T>            ? kPanel / 2
                                                              : 0;
template <class T>
constexpr TileWidths tile_widths(int64_t filters) {
  // Tiles of the library take no time to compile, and kernels that ask for all of them share one convolve_all.
  if (filters == 0 || has_library_tiles<T>()) return {true, kNarrow<T> > 0};
  return {filters > kNarrow<T>, (filters - 1) % (OutputTile<T>::kPanels * kPanel) < kNarrow<T>};
}

template <class T, TileWidths kWidths>
void convolve_items(const ConvolutionItems<T>& items, const T* x, const T* filters, int64_t begin, int64_t end,
                    const OutputPut<T>& out) {
  constexpr int64_t P = ConvolutionItems<T>::kPanels;
  const Convolution& c = items.shape;
  const int64_t columns = c.groups * items.panel_groups, panels = (c.filters + kPanel - 1) / kPanel;
  int64_t first[ConvolutionItems<T>::kMostOutputs + 1], found = -1;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t block = i / columns, group = i % columns / items.panel_groups;
    const int64_t n = i % items.panel_groups * P * kPanel, width = std::min(P * kPanel, c.filters - n);
    const OutputPlace at{items.first_output(block), items.first_output(block + 1), group * c.filters + n, width, first};
    if (found != block) find_first_terms(items.window, items.image, at.m0, at.m1, first);
    found = block;
    const T* panel = filters + (group * panels * kPanel + n) * items.depth;
    const T* from = x + group * c.channels;
    const bool is_narrow = !kWidths.wide || width <= kNarrow<T>;
    if constexpr (kWidths.narrow)
      if (is_narrow) convolve_block<T, 1, kHasHalves<T>>(items, at, from, panel, out);
    if constexpr (kWidths.wide)
      if (!is_narrow) convolve_block<T, P>(items, at, from, panel, out);
  }
}

/// Items begin .. end of pairs of groups, pairs fastest. convolve_block computes a group that is left over. A tile with
/// too few outputs repeats the last one.
template <class T>
void convolve_group_pairs(const ConvolutionItems<T>& items, const T* x, const T* filters, int64_t begin, int64_t end,
                          const OutputPut<T>& out) {
  constexpr int R = kGroupPairRows;
  constexpr bool kHalves = kHasHalves<T>;
  const int64_t groups = items.shape.groups, pairs = (groups + 1) / 2, panel_stride = items.depth * kPanel;
  alignas(64) T sums[R * kPanel];
  int64_t first[ConvolutionItems<T>::kMostOutputs + R], found = -1;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t block = i / pairs, group = i % pairs * 2, n = group * kPairedGroup;
    const int64_t m0 = items.first_output(block), m1 = items.first_output(block + 1);
    if (found != block) {
      find_first_terms(items.window, items.image, m0, m1, first);
      std::fill_n(first + (m1 - m0), R, first[m1 - m0 - 1]);
      found = block;
    }
    if (group + 1 == groups) {
      convolve_block<T, 1, kHalves>(items, {m0, m1, n, kPairedGroup, first}, x + n, filters + group * panel_stride,
                                    out);
      continue;
    }
    for (int64_t at = m0; at < m1; at += R) {
      const int64_t rows = std::min<int64_t>(R, m1 - at), m = items.first_of_all + at;
      const TapPart part = items.part(at, at + rows);
      const T *const image = x + n + part.image, *const panel = filters + group * panel_stride + part.panel;
      if constexpr (has_library_tiles<T>())
        library_group_pair_tile<kLevel, R>(image, first + (at - m0), part.runs, panel, panel_stride, sums);
      else
        group_pair_tile<R>(image, first + (at - m0), part.runs, panel, panel_stride, sums);
      for (int64_t g = 0; g < 2; ++g) {
        out.call_ahead(out.ahead, m, n + g * kPairedGroup, rows, kPairedGroup);
        out.put(m, n + g * kPairedGroup, rows, kPairedGroup, sums + g * kPairedGroup, kPanel);
      }
    }
  }
}

}  // namespace detail

/// The number of elements of the bordered images that `convolve` makes at a time. It is 0 if no window reaches outside
/// of the image, unless images are copied anyway.
constexpr int64_t border_count(const SlidingWindow& w, const Convolution& c, bool is_copied = false) {
  if (!is_copied && !detail::reads_border(w)) return 0;
  return detail::images_at_a_time(w, c) * detail::bordered_image(w, c).count();
}

/// Prefetches nothing.
struct NothingAhead {
  void operator()(int64_t, int64_t, int64_t) const {}
};

namespace detail {

/// The part of a convolution that all kernels of a file share.
template <class T, TileWidths kWidths, class X>
WEFT_ONE_COPY void convolve_all(Team& team, const SlidingWindow& window, const Convolution& c, const X& x,
                                const T* filters, const OutputPut<T>& out, T outside, int32_t zero) {
  constexpr bool kIsPlanes = !std::is_pointer_v<X>;
  if (c.batch * window.out_count() == 0) return;  // a rank without rows
  const bool copies = kIsPlanes || reads_border(window);
  const Scratch<T> bordered(border_count(window, c, kIsPlanes));
  const int64_t at_a_time = copies ? images_at_a_time(window, c) : c.batch;
  for (int64_t image = 0; image < c.batch; image += at_a_time) {
    const int64_t images = std::min(at_a_time, c.batch - image);
    const ConvolutionItems<T> items(window, c, image, images, team.threads(), zero);
    const auto first = image_at(x, image, 0, window.in_count(), c.groups * c.channels);
    const T* from = bordered.get();
    if constexpr (!kIsPlanes) from = copies ? from : first;
    if (copies) add_border(team, window, items.image, images, first, bordered.get(), outside);
    if constexpr (kPairsGroups<T>)
      if (c.groups > 1 && c.channels == kPairedGroup && c.filters == kPairedGroup) {
        team.parallel(items.blocks * ((c.groups + 1) / 2), items.grain,
                      [&](int64_t begin, int64_t end) { convolve_group_pairs(items, from, filters, begin, end, out); });
        continue;
      }
    team.parallel(items.count(), items.grain, [&](int64_t begin, int64_t end) {
      convolve_items<T, kWidths>(items, from, filters, begin, end, out);
    });
  }
}

}  // namespace detail

/// Calls put once for each output and up to 16 filters. Before the sums of output m and of `width` (up to 32) filters
/// from n0 on are computed, ahead(m, n0, width) may prefetch memory for put. Results larger than the second-level cache
/// are then written 1.5 times as fast. `kFilters`: the filters of a group if known, so that other widths of put are not
/// compiled; else 0. `x` points to images with channels innermost, or is Planes.
template <class T, int64_t kFilters = 0, class X, class Put, class Ahead = NothingAhead>
[[gnu::always_inline]] inline void convolve(Team& team, const SlidingWindow& window, const Convolution& c, const X& x,
                                            const T* filters, Put&& put, Ahead&& ahead = {}, T outside = {},
                                            int32_t zero = 0) {
  using Before = std::remove_reference_t<Ahead>;
  void* const before = const_cast<void*>(static_cast<const void*>(&ahead));
  detail::convolve_all<T, detail::tile_widths<T>(kFilters)>(
      team, window, c, x, filters,
      {detail::tile_put<kFilters, detail::SumsOf<T>>(put), detail::look_ahead<Before>, before}, outside, zero);
}

/// Sums of products of bfloat16. The channels of `c` count pairs: images and filters hold two neighbouring channels of
/// each point, with zeros for a missing one.
///
///   filters  [groups][ceil(filters / 16)][z taps][y taps][x taps][ceil(channels / 2)][16][2]
template <int64_t kFilters = 0, class Put, class Ahead = NothingAhead>
void convolve_pairs(Team& team, const SlidingWindow& window, const Convolution& c, const bfloat16* x,
                    const bfloat16* filters, Put&& put, Ahead&& ahead = {}) {
  const auto run = [&](auto has_dot_product) {
    using Pair = BfloatPair<decltype(has_dot_product)::value>;
    convolve<Pair, kFilters>(team, window, c, reinterpret_cast<const Pair*>(x), reinterpret_cast<const Pair*>(filters),
                             put, ahead);
  };
  if (has_bfloat_dot_product())
    run(std::true_type{});
  else
    run(std::false_type{});
}

namespace detail {

/// The element type of images of bytes, and the images as `convolve` reads them.
template <class Element>
Element byte_of(const Element* x);
template <class Element>
Element byte_of(BytePlanes<Element> x);

template <class Quad, class Element>
const Quad* as_quads(const Element* x) {
  return reinterpret_cast<const Quad*>(x);
}
template <class Quad, class Element>
BytePlanes<Element> as_quads(BytePlanes<Element> x) {
  return x;
}

}  // namespace detail

/// Sums of products of 8-bit integers, minus their zero point, and signed 8-bit filters with zero point 0. The channels
/// of `c` count groups of four: images and filters hold four neighbouring channels of each point. Filters have zeros
/// for missing ones. `x` points to such images, or is BytePlanes.
///
///   filters  [groups][ceil(filters / 16)][z taps][y taps][x taps][ceil(channels / 4)][16][4]
template <int64_t kFilters = 0, class X, class Put, class Ahead = NothingAhead>
void convolve_bytes(Team& team, const SlidingWindow& window, const Convolution& c, const X& x, int32_t zero,
                    const int8_t* filters, Put&& put, Ahead&& ahead = {}) {
  const auto run = [&]<ByteDot kDot>() {
    using Element = decltype(detail::byte_of(x));
    using Quad = ByteQuad<Element, kDot>;
    const Quad outside{uint8_t(zero) * 0x01010101u};
    convolve<Quad, kFilters>(team, window, c, detail::as_quads<Quad>(x), reinterpret_cast<const Quad*>(filters), put,
                             ahead, outside, zero + detail::kByteShift<Element>);
  };
  const ByteDot dot = byte_dot();
  if constexpr (kMayHaveVexDot)
    if (dot == ByteDot::VexDot) return run.template operator()<ByteDot::VexDot>();
  if (dot == ByteDot::Dot)
    run.template operator()<ByteDot::Dot>();
  else
    run.template operator()<ByteDot::None>();
}

}  // namespace weft

// Products of few terms, whose sums a kernel puts as soon as they are complete, out of registers. With 16 to 64 terms a
// tile of contract.h spends a tenth to a third of its time on storing its sums, calling `put` and loading them again.
// The price is a tile of its own for each kernel, which must be compiled.
//
// Operands, results and their bits are those of contract() and its variants. There are kWholeK steps at most, and as
// many as kScratch has room for where panels are packed on the fly.
#pragma once
#include <algorithm>
#include <cstdint>

#include "weft/contract.h"

namespace weft {
namespace detail {

/// The shape of a tile of a short product with kColumns columns; 0: their number is known at run time only.
template <class T, int64_t kColumns>
struct ShortTile {
  /// Three panels use each element of the first operand more often, if vectors are as long as panels, unless a panel
  /// would be left alone.
  static constexpr int64_t kMost = kVectorBytes == 64 ? std::max(1, 3 / Simd<T>::kPanelVectors) : Simd<T>::kPanels;
  static constexpr int64_t kAll = (kColumns + kPanel - 1) / kPanel;
  static constexpr int64_t kPanels = kColumns == 0                 ? kMost
                                     : kMost == 3 && kAll % 3 == 1 ? std::min<int64_t>(kAll, 2)
                                                                   : std::min(kAll, kMost);
  static constexpr int64_t kWidth = kPanels * kPanel;
  /// Columns of the last tile; 0: they are left to contract.h. Few remaining columns out of many are not worth a tile
  /// of their own.
  static constexpr int64_t kLast =
      kColumns == 0 || (kColumns > 2 * kWidth && kColumns % kWidth) ? 0 : (kColumns - 1) % kWidth + 1;
};
/// Rows of a tile of some columns. They have fewer sums than there are registers: one tile's sums are put while the
/// next one's are computed, and rows of images are often multiples of 7.
template <class T, int64_t kColumns>
constexpr int short_rows() {
  constexpr int kSums = kVectorBytes == 64 ? 21 : Simd<T>::kSums;
  return std::clamp(kSums / int((kColumns + Simd<T>::kLanes - 1) / Simd<T>::kLanes), 1, 12);
}

/// R rows from row m on, with all steps of the columns n .. n + kColumns. `put` is a copy, as that of TilePut.
template <class T, int64_t kColumns, int R, class A, class Put>
[[gnu::noinline]] void put_short_tile(const A rows, const T* panel, int64_t panel_stride, int64_t k, int64_t m,
                                      int64_t n, Prefetch<T> next, Put put) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  constexpr int V = int(kColumns + S::kLanes - 1) / S::kLanes, P = (V + S::kPanelVectors - 1) / S::kPanelVectors;
  Vector sum[R][V] = {}, before[R][V];
  RowCursor<R, A> cursor(rows);
  PanelCursor<T, P> panels(panel, panel_stride);
  const int64_t part = part_of(k);
  for (bool is_first = true;; is_first = false, k -= part) {  // parts, as those of sum_tile
    add_all_steps<T>(sum, cursor, panels, next_part(k, part), next);
    const bool is_last = k <= part;
    if (!is_first) add_tile(sum, before);
    if (is_last) break;
    take_tile(sum, before);
  }
  // g++ vectorises the loops of `put` and reads the sums from the registers that are stored here.
  constexpr int64_t kRow = P * kPanel, kWhole = kColumns / kPanel * kPanel, kPart = kColumns - kWhole;
  alignas(64) T sums[R * kRow];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) *reinterpret_cast<Vector*>(sums + r * kRow + v * S::kLanes) = sum[r][v];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int64_t c = 0; c < kWhole; c += kPanel)
      put(m + r, n + c, std::integral_constant<int64_t, kPanel>{}, sums + r * kRow + c);
    if constexpr (kPart > 0) put(m + r, n + kWhole, std::integral_constant<int64_t, kPart>{}, sums + r * kRow + kWhole);
  }
}

/// Computes an item by contract.h: rows or columns that fill no tile.
template <class T, class A, class B, class Put>
void put_rest(const Contraction& c, ItemPlace at, const A& a, const B& b, const Put& put) {
  for (; at.n < c.n; at.n += Simd<T>::kPanels * kPanel) contract_item<T>(c, at, a, b, tile_put<0, T>(put));
}

/// The existing panels of an item.
template <class T>
struct PanelsOfItem {
  const T* panel;
  int64_t n, stride;
  const T* at(int64_t column, int64_t k0, int64_t, int64_t) const {
    return panel + (column - n) / kPanel * stride + k0 * kPanel;
  }
  int64_t panel_stride(int64_t) const { return stride; }
};

/// An item of kColumns columns.
template <class T, int64_t kColumns, class A, class B, class Put>
void put_short_item(Contraction c, ItemPlace at, const A& a, const B& b, const Put& put) {
  constexpr int R = short_rows<T, kColumns>();
  constexpr int64_t P = (kColumns + kPanel - 1) / kPanel, kBytes = P * kPanel * int64_t{sizeof(T)};
  const PanelsOfItem<T> panels{b.at(at.n, 0, c.k, P), at.n, b.panel_stride(c.k)};
  Prefetch<T> next{reinterpret_cast<const char*>(panels.panel + P * panels.stride),
                   std::max<int64_t>(1, kBytes * kRound<R> * R / std::max<int64_t>(1, at.m1 - at.m0))};
  for (; at.m0 + R <= at.m1; at.m0 += R, next.at += next.bytes * (c.k / kRound<R>))
    put_short_tile<T, kColumns, R>(tile_rows<R>(a, at.m0, 0), panels.panel, panels.stride, c.k, at.m0, at.n, next, put);
  c.n = at.n + kColumns;
  if (at.m0 < at.m1) put_rest<T>(c, at, a, panels, put);
}

/// As cut(), with blocks of whole tiles: only the last one has rows that fill none.
template <class T, int64_t kColumns>
Cut short_cut(const Contraction& c, int64_t batch, int threads) {
  using Tile = ShortTile<T, kColumns>;
  if (c.m <= 0 || c.n <= 0) return {0, 0, 1};
  constexpr int R = short_rows<T, Tile::kWidth>();
  const int64_t tiles = (c.m + R - 1) / R, at_once = std::max<int64_t>(1, kBlockRows / R);
  const int64_t groups = (c.n + Tile::kWidth - 1) / Tile::kWidth;
  const int64_t wanted = threads == 1 ? 1 : (4 * threads + batch * groups - 1) / (batch * groups);
  const int64_t blocks = std::max((tiles + at_once - 1) / at_once, std::min(tiles / 2, wanted));
  const int64_t flops = 2 * Tile::kWidth * c.k * R * (tiles / blocks + 1);
  return {blocks, groups, std::max<int64_t>(1, 200000 / std::max<int64_t>(1, flops))};  // 2 us a chunk at least
}

/// Items begin .. end.
template <class T, int64_t kColumns, class A, class B, class Put>
void put_short_items(const Contraction& c, const Cut& cut, const A& a, const B& b, int64_t begin, int64_t end,
                     const Put& put) {
  using Tile = ShortTile<T, kColumns>;
  constexpr int64_t R = short_rows<T, Tile::kWidth>();
  const int64_t tiles = (c.m + R - 1) / R;
  for (; begin < end; ++begin) {
    const int64_t block = begin / cut.panel_groups;
    const ItemPlace at{.m0 = tiles * block / cut.row_blocks * R,
                       .m1 = std::min(c.m, tiles * (block + 1) / cut.row_blocks * R),
                       .n = begin % cut.panel_groups * Tile::kWidth};
    if (Tile::kLast == Tile::kWidth || at.n + Tile::kWidth <= c.n)
      put_short_item<T, Tile::kWidth>(c, at, a, b, put);
    else if constexpr (Tile::kLast > 0 && Tile::kLast < Tile::kWidth)
      put_short_item<T, Tile::kLast>(c, at, a, b, put);
    else if constexpr (Tile::kLast == 0)
      put_rest<T>(c, at, a, b, put);
  }
}

template <class T, class Run>
void with_panels(const Unpacked<T>& b, const Contraction& c, const Run& run) {
  alignas(64) T scratch[kScratch<T>];
  run(PackingPanels<T>{b, c.n, scratch});
}
template <class T, class Run>
void with_panels(const T* b, const Contraction& c, const Run& run) {
  run(PackedPanels<T>{b, c.packed_k ? c.packed_k : c.k});
}

}  // namespace detail

/// contract_batch, where b_of gives an Unpacked operand, or contract_packed_batch, where it gives a pointer to a packed
/// one: of a product with kColumns columns; 0: their number is known at run time only. `put` should compute little,
/// since a tile contains its code once for each row.
template <class T, int64_t kColumns, class AOf, class BOf, class Put>
void contract_short_batch(Team& team, int64_t batch, const Contraction c, const AOf& a_of, const BOf& b_of,
                          const Put& put) {
  const detail::Cut cut = detail::short_cut<T, kColumns>(c, batch, team.threads());
  detail::for_each_contraction(team, batch, cut, [&](int64_t i, int64_t begin, int64_t end) {
    const auto put_here = [put, i](int64_t m, int64_t n0, auto width, const T* sums) { put(i, m, n0, width, sums); };
    detail::with_panels(b_of(i), c, [&](const auto& panels) {
      detail::put_short_items<T, kColumns>(c, cut, a_of(i), panels, begin, end, put_here);
    });
  });
}

/// contract() of one product, in the same way.
template <class T, int64_t kColumns, class A, class Put>
void contract_short(Team& team, const Contraction c, const A& a, const T* b, const Put& put) {
  contract_short_batch<T, kColumns>(
      team, 1, c, [&](int64_t) -> const A& { return a; }, [&](int64_t) { return b; },
      [put](int64_t, int64_t m, int64_t n0, auto width, const T* sums) { put(m, n0, width, sums); });
}

}  // namespace weft

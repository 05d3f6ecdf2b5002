// Products of few terms, whose sums a kernel puts as soon as they are complete, out of registers. With 16 to 40 terms a
// tile of contract.h takes as long to store its sums, to call what puts them and to load them again as it takes to
// multiply a third of them. A kernel pays with a tile of its own, which is to be compiled.
//
// Operands, results and their bits are those of contract() with a packed second operand.
#pragma once
#include <algorithm>
#include <cstdint>

#include "weft/contract.h"

namespace weft {
namespace detail {

/// Panels of a tile of a short product with so many panels. Three use each element of the first operand more often, if
/// vectors are as long as panels, unless a panel would be left alone.
template <class T>
constexpr int64_t short_panels(int64_t panels) {
  constexpr int64_t kMost = kVectorBytes == 64 ? std::max(1, 3 / Simd<T>::kPanelVectors) : Simd<T>::kPanels;
  return std::min(panels, kMost == 3 && panels % 3 == 1 ? 2 : kMost);
}
/// Rows of a tile of V vectors. Fewer sums than there are registers: one tile's sums are put while the next one's are
/// computed, and rows of images are often multiples of 7.
template <class T>
constexpr int short_rows(int vectors) {
  constexpr int kSums = kVectorBytes == 64 ? 21 : Simd<T>::kSums;
  return std::clamp(kSums / vectors, 1, 12);
}

/// Which columns a tile has: from n on, `kColumns` of them, in V vectors.
template <int V, int64_t kColumns>
struct ShortColumns {
  static constexpr int kVectors = V;
  static constexpr int64_t kCount = kColumns;
  int64_t n;
};

/// Rows m .. m + R of a product, whole. `put` is a copy, as that of TilePut.
template <int R, class T, class Columns, class Put>
[[gnu::noinline]] void short_tile(const Rows<T> a, const PackedPanels<T> b, int64_t k, int64_t m, Columns columns,
                                  Put put) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  constexpr int V = Columns::kVectors;
  Vector sum[R][V] = {};
  const T *const row = a.data + m * a.row, *const panel = b.at(columns.n, 0, k, 1);
  const int64_t panel_stride = b.panel_stride(k);
  const auto multiply = [&](int64_t i) __attribute__((always_inline)) {
    Vector column[V];
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v)
      column[v] = *reinterpret_cast<const Vector*>(panel + v / S::kPanelVectors * panel_stride + i * kPanel +
                                                   v % S::kPanelVectors * S::kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const T factor = row[r * a.row + i];
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) sum[r][v] += factor * column[v];
    }
  };
  int64_t i = 0;
  for (; i + 4 <= k; i += 4)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) multiply(i + j);
  for (; i < k; ++i) multiply(i);
  // g++ finds the sums of a loop of `put` in the registers that are stored here.
  constexpr int64_t kRow = (V + S::kPanelVectors - 1) / S::kPanelVectors * kPanel;
  alignas(64) T sums[R * kRow];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) *reinterpret_cast<Vector*>(sums + r * kRow + v * S::kLanes) = sum[r][v];
  constexpr int64_t kWhole = Columns::kCount / kPanel * kPanel, kLast = Columns::kCount - kWhole;
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int64_t c = 0; c < kWhole; c += kPanel)
      put(m + r, columns.n + c, std::integral_constant<int64_t, kPanel>{}, sums + r * kRow + c);
    if constexpr (kLast > 0)
      put(m + r, columns.n + kWhole, std::integral_constant<int64_t, kLast>{}, sums + r * kRow + kWhole);
  }
}

/// Rows m0 .. m1: those that fill no tile go through contract.h.
template <int R, class T, class Columns, class Put>
void put_short_rows(const Contraction& c, const Rows<T>& a, const PackedPanels<T>& b, int64_t m0, int64_t m1,
                    Columns columns, const Put& put) {
  for (; m0 + R <= m1; m0 += R) short_tile<R>(a, b, c.k, m0, columns, put);
  if (m0 == m1) return;
  const Contraction left{m1, columns.n + Columns::kCount, c.k, c.packed_k};
  for (ItemPlace at{m0, m1, columns.n}; at.n < left.n; at.n += Simd<T>::kPanels * kPanel)
    contract_item<T>(left, at, a, b, tile_put<0, T>(put));
}

}  // namespace detail

/// a @ b for a packed b with few steps, kWholeK at most, and kColumns columns. `put` as that of contract(), with little
/// to compute: a tile has its text for each of its rows.
template <int64_t kColumns, class T, class Put>
void contract_short(Team& team, const Contraction c, const Rows<T>& a, const T* b, const Put& put) {
  constexpr int64_t kPanels = (kColumns + kPanel - 1) / kPanel, P = detail::short_panels<T>(kPanels);
  constexpr int64_t kGroups = (kPanels + P - 1) / P, kLast = kColumns - (kGroups - 1) * P * kPanel;
  constexpr int kLanes = detail::Simd<T>::kLanes, V = P * detail::Simd<T>::kPanelVectors;
  constexpr int kLastVectors = int(kLast + kLanes - 1) / kLanes, R = detail::short_rows<T>(V);
  const detail::PackedPanels<T> panels{b, c.packed_k ? c.packed_k : c.k};
  // Blocks of whole tiles, so that only the last one has rows that fill none.
  const int64_t tiles = (c.m + R - 1) / R, at_once = std::max<int64_t>(1, detail::kBlockRows / R);
  const int64_t wanted = team.threads() == 1 ? 1 : (4 * team.threads() + kGroups - 1) / kGroups;
  const int64_t blocks = std::max((tiles + at_once - 1) / at_once, std::min(tiles / 2, wanted));
  const int64_t flops = 2 * P * kPanel * c.k * R * (blocks ? tiles / blocks + 1 : 1);
  team.parallel(blocks * kGroups, std::max<int64_t>(1, 200000 / std::max<int64_t>(1, flops)),
                [&](int64_t begin, int64_t end) {
                  for (; begin < end; ++begin) {
                    const int64_t block = begin / kGroups, n = begin % kGroups * P * kPanel;
                    const int64_t m0 = tiles * block / blocks * R, m1 = std::min(c.m, tiles * (block + 1) / blocks * R);
                    if (n + P * kPanel < kColumns)
                      detail::put_short_rows<R>(c, a, panels, m0, m1, detail::ShortColumns<V, P * kPanel>{n}, put);
                    else
                      detail::put_short_rows<detail::short_rows<T>(kLastVectors)>(
                          c, a, panels, m0, m1, detail::ShortColumns<kLastVectors, kLast>{n}, put);
                  }
                });
}

}  // namespace weft

// Dense contraction: a register-tiled micro-kernel. The second operand lies in panels of 16 columns, or is packed into
// them on the fly. Tile sizes follow the instruction set: 6 x 16 with AVX2 and NEON, 12 x 32 with AVX-512. `float` or
// `double`.
//
// Operands in panels are those of panels.h. Sums are handed to
//   put(m, n0, width, const T* sums)
// for one row m and columns n0 .. n0 + width. Take `width` as `auto`: for a full panel it is a std::integral_constant,
// so that the loop over it becomes plain vector code. Each (m, n0) is put once, after all of k.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "weft/product_tile.h"
#include "weft/team.h"

namespace weft {

/// Extents of "m k, k n -> m n". A packed second operand may have more steps than the product takes: a rank's ragged
/// slice is packed with room for a whole block.
struct Contraction {
  int64_t m, n, k;
  int64_t packed_k = 0;  // steps of a panel; 0: k
};

namespace detail {

template <class T, class Put>
inline void put_row(int64_t m, int64_t n, int64_t columns, const T* sums, Put& put) {
  if (columns == kPanel)
    put(m, n, std::integral_constant<int64_t, kPanel>{}, sums);
  else
    put(m, n, columns, sums);
}

/// put_row where the number of columns of all panels together is a compile-time constant; 0: it is not. Only the last
/// panel may be partial.
template <int64_t kColumns, class T, class Put>
inline void put_columns(int64_t m, int64_t n, int64_t columns, const T* sums, Put& put) {
  constexpr int64_t kTail = kColumns % kPanel;
  if constexpr (kColumns == 0)
    put_row(m, n, columns, sums, put);
  else if (kTail == 0 || (kColumns > kPanel && columns == kPanel))
    put(m, n, std::integral_constant<int64_t, kPanel>{}, sums);
  else
    put(m, n, std::integral_constant<int64_t, kTail>{}, sums);
}

/// A type-erased pointer to a kernel's `put`, for the rows and columns of a whole tile. The multiplication is then
/// compiled once for all kernels of a file, and the call for each tile costs less than 1 %. Each tile calls a copy of
/// `put`, which no store of bytes can alias. Captures by value are then read once per tile, and loops vectorise.
template <class T>
struct TilePut {
  void (*call)(void* put, int64_t m, int64_t n0, int64_t rows, int64_t columns, const T* sums, int64_t row);
  void* put;

  /// Puts rows whose sums lie `row` apart.
  void operator()(int64_t m, int64_t n0, int64_t rows, int64_t columns, const T* sums, int64_t row) const {
    call(put, m, n0, rows, columns, sums, row);
  }
};
template <int64_t kColumns, class T, class Put>
void put_rows(void* put, int64_t m, int64_t n0, int64_t rows, int64_t columns, const T* sums, int64_t row) {
  Put each = *static_cast<Put*>(put);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = 0; n < columns; n += kPanel)
      put_columns<kColumns>(m + r, n0 + n, std::min(kPanel, columns - n), sums + r * row + n, each);
}
template <int64_t kColumns, class T, class Put>
inline TilePut<T> tile_put(Put& put) {
  return {put_rows<kColumns, T, Put>, const_cast<void*>(static_cast<const void*>(&put))};
}
/// Compiles only the case of whole panels where g++ can tell that there is no other.
template <class T, class Put>
[[gnu::always_inline]] inline TilePut<T> tile_put(Put& put, int64_t columns) {
  return columns % kPanel == 0 ? tile_put<kPanel, T>(put) : tile_put<0, T>(put);
}

/// Rows of a block, which share one pass over k.
inline constexpr int64_t kBlockRows = 120;

/// A range in parts whose lengths differ by one at most. A division takes as long as dozens of products, which matters
/// for small contractions. A single part needs no division, several parts only one.
struct Parts {
  Parts(int64_t length, int64_t count)
      : count(int32_t(count)), each(count == 1 ? length : length / count), longer(length - each * count) {}
  int64_t size(int64_t i) const { return each + (i < longer); }
  int32_t count;
  int64_t each, longer;
};

/// The result that one item computes: rows m0 .. m1 of some panels, from column n on.
struct ItemPlace {
  int64_t m0, m1, n;
};

/// Steps of the panels of an item: `k` of them, from step k0 on. The first ones begin the sums.
template <class W>
struct PanelSteps {
  const W* panel;
  int64_t panel_stride, k0, k;
  bool is_first, is_last;
};

/// An item's sums over some steps of P panels, in even tiles of at most R rows.
template <class T, int R, int P, class A, class W>
void contract_steps(const Contraction& c, const ItemPlace& at, const A& a, const PanelSteps<W>& steps, T* sums,
                    const TilePut<T>& put) {
  constexpr int kWidth = P * int(kPanel);
  const auto [panel, stride, k0, k, is_first, is_last] = steps;
  const Parts tiles(at.m1 - at.m0, (at.m1 - at.m0 + R - 1) / R);
  const int64_t columns = std::min<int64_t>(kWidth, c.n - at.n), width = is_last && is_first ? 0 : kWidth;
  // The tiles prefetch the same steps of the next P panels, one panel after the other.
  const char* next_panel = reinterpret_cast<const char*>(panel + P * stride);
  const int64_t panel_bytes = k * kPanel * int64_t{sizeof(W)}, round_bytes = kWidth * int64_t{sizeof(W)} * kRound<R>;
  Prefetch<T> next{next_panel, std::max<int64_t>(1, round_bytes / tiles.count)};
  for (int64_t t = 0, m = at.m0, rows; t < tiles.count; ++t, m += rows, next.at += next.bytes * (k / kRound<R>)) {
    if (next.at - next_panel >= panel_bytes) {
      next.at += stride * int64_t{sizeof(W)} - panel_bytes;
      next_panel += stride * int64_t{sizeof(W)};
    }
    rows = tiles.size(t);
    T* out = sums + (m - at.m0) * width;
    bool is_half = false;
    if constexpr (P == 1 && half_panel<T> < Simd<T>::kPanelVectors)
      if (is_half = columns <= kPanel / 2; is_half)
        tile_of<T, R, P, half_panel<T>>(rows, a, m, k0, panel, stride, k, out, !is_first, next);
    if (!is_half) tile_of<T, R, P>(rows, a, m, k0, panel, stride, k, out, !is_first, next);
    if (is_last) put(m, at.n, rows, columns, out, kWidth);
  }
}

/// Sums of up to this many blocks of k are added in T, sums of more in a wider type (weft/sum_type.h).
inline constexpr int64_t kBlocksInTurn = kPartsInTurn / (kBlockK / kTermsInTurn);

/// An item's sums over more blocks of k than T can add without losing digits.
template <class T, int R, int P, class A, class B>
[[gnu::noinline]] void contract_long_block(const Contraction& c, const ItemPlace& at, const A& a, const B& b,
                                           const Parts& blocks, const TilePut<T>& put) {
  constexpr int64_t kWidth = P * kPanel, kCount = (kBlockRows + R) * kWidth;
  const int64_t rows = at.m1 - at.m0, count = rows * kWidth;
  alignas(64) T sums[kCount];
  alignas(64) SumOfSums<T> totals[kCount];
  std::fill_n(totals, count, 0);
  for (int64_t block = 0, k0 = 0, k; block < blocks.count; ++block, k0 += k) {
    k = blocks.size(block);
    const auto* panel = b.at(at.n, k0, k, P);
    using W = std::remove_cvref_t<decltype(*panel)>;
    const bool is_first = block % kBlocksInTurn == 0;
    contract_steps<T, R, P>(c, at, a, PanelSteps<W>{panel, b.panel_stride(k), k0, k, is_first, false}, sums, put);
    if (block + 1 == blocks.count || (block + 1) % kBlocksInTurn == 0)
      for (int64_t i = 0; i < count; ++i) totals[i] += sums[i];
  }
  for (int64_t i = 0; i < count; ++i) sums[i] = T(totals[i]);
  put(at.m0, at.n, rows, std::min(kWidth, c.n - at.n), sums, kWidth);
}

/// The same over all of k, in blocks.
template <class T, int R, int P, class A, class B>
void contract_block(const Contraction& c, const ItemPlace& at, const A& a, const B& b, const TilePut<T>& put) {
  const Parts blocks(c.k, c.k <= kWholeK ? 1 : (c.k + kBlockK - 1) / kBlockK);
  if (blocks.count > kBlocksInTurn) return contract_long_block<T, R, P>(c, at, a, b, blocks, put);
  alignas(64) T sums[(kBlockRows + R) * P * kPanel];
  for (int64_t block = 0, k0 = 0, k; block < blocks.count; ++block, k0 += k) {
    k = blocks.size(block);
    const auto* panel = b.at(at.n, k0, k, P);
    using W = std::remove_cvref_t<decltype(*panel)>;
    const bool is_first = block == 0, is_last = block + 1 == blocks.count;
    contract_steps<T, R, P>(c, at, a, PanelSteps<W>{panel, b.panel_stride(k), k0, k, is_first, is_last}, sums, put);
  }
}

/// How a contraction is cut into items: row blocks times groups of panels, panels fastest.
struct Cut {
  int64_t row_blocks, panel_groups, grain;
};
template <class T>
Cut cut(const Contraction& c, int64_t batch, int threads) {
  using S = Simd<T>;
  if (c.m <= 0 || c.n <= 0) return {0, 0, 1};  // a rank without rows
  const int64_t group = S::kPanels * kPanel, panel_groups = (c.n + group - 1) / group;
  int64_t row_blocks = (c.m + kBlockRows - 1) / kBlockRows;
  const int64_t wanted = threads == 1 ? 1 : 4 * threads, useful = std::max<int64_t>(1, c.m / (2 * S::kRows));
  if (batch * row_blocks * panel_groups < wanted)
    row_blocks = std::max(row_blocks, std::min(useful, wanted / std::max<int64_t>(1, batch * panel_groups)));
  const int64_t flops = 2 * group * c.k * ((c.m + row_blocks - 1) / row_blocks);
  return {row_blocks, panel_groups,
          std::max<int64_t>(1, 200000 / std::max<int64_t>(1, flops))};  // 2 us a chunk at least
}

template <class T>
ItemPlace item_place(const Contraction& c, const Cut& cut, int64_t item) {
  const int64_t block = cut.row_blocks == 1 ? 0 : item / cut.panel_groups;
  return {.m0 = block == 0 ? 0 : c.m * block / cut.row_blocks,
          .m1 = block + 1 == cut.row_blocks ? c.m : c.m * (block + 1) / cut.row_blocks,
          .n = (item - block * cut.panel_groups) * Simd<T>::kPanels * kPanel};
}

/// An item: picks the tile width for what is left of n.
template <class T, class A, class B>
[[gnu::noinline]] void contract_item(const Contraction& c, const ItemPlace& at, const A& a, const B& b,
                                     const TilePut<T>& put) {
  constexpr int P = Simd<T>::kPanels, R = Simd<T>::kRows;
  if (P > 1 && c.n - at.n <= kPanel) return contract_block<T, R, 1>(c, at, a, b, put);
  contract_block<T, R, P>(c, at, a, b, put);
}

/// Items begin .. end with a packed operand.
template <class T, class A, class W>
void contract_range(const Contraction& c, const Cut& cut, const A& a, const PackedPanels<W>& b, int64_t begin,
                    int64_t end, const TilePut<T>& put) {
  with_numbers<T>(b, [&](const auto& numbers) {
    for (; begin < end; ++begin) contract_item(c, item_place<T>(c, cut, begin), a, numbers, put);
  });
}

/// Some items of a contraction, in their order or from the last one on.
struct Items {
  int64_t begin, end;
  bool from_end = false;
};

/// Neighbouring items with up to R rows each: it takes enough panels at a time to hide the latency of additions.
template <class T, int R, class A, class B>
void contract_few(const Contraction& c, const Cut& cut, const A& a, const B& b, const Items& items,
                  const TilePut<T>& put) {
  constexpr int P = panels_of_few<T>(R), kItems = P / Simd<T>::kPanels;
  constexpr int64_t kWidth = Simd<T>::kPanels * kPanel;
  static_assert(P % Simd<T>::kPanels == 0);
  const int64_t groups = std::max<int64_t>(0, std::min(items.end, c.n / kWidth) - items.begin) / kItems;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t item = items.begin + (items.from_end ? groups - 1 - g : g) * kItems;
    contract_block<T, R, P>(c, {0, c.m, item * kWidth}, a, b, put);
  }
  for (int64_t item = items.begin + groups * kItems; item < items.end; ++item)
    contract_item(c, item_place<T>(c, cut, item), a, b, put);
}

/// Items of one contraction with a packed operand, for any number of rows.
template <class T, class A, class W>
void contract_items(const Contraction& c, const Cut& cut, const A& a, const PackedPanels<W>& b, const Items& items,
                    const TilePut<T>& put) {
  if (c.m == 1) return contract_few<T, 1>(c, cut, a, b, items, put);
  if (c.m <= kFewRows) return contract_few<T, 3>(c, cut, a, b, items, put);
  contract_range(c, cut, a, b, items.begin, items.end, put);
}

/// Hands the items of all contractions of a batch to the team: run(i, begin, end) does some items of contraction i.
template <class Run>
void for_each_contraction(Team& team, int64_t batch, const Cut& cut, const Run& run) {
  const int64_t items = cut.row_blocks * cut.panel_groups;
  if (items == 0) return;
  team.parallel(batch * items, cut.grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t i = begin / items, last = std::min(end, (i + 1) * items);
      run(i, begin - i * items, last - i * items);
      begin = last;
    }
  });
}

template <class A>
struct ElementOf;
template <class T>
struct ElementOf<Rows<T>> {
  using Type = T;
};
template <class T>
struct ElementOf<Strided<T>> {
  using Type = T;
};

/// An operand as given, or a row function wrapped.
template <class T, class A>
decltype(auto) first_operand(const A& a) {
  if constexpr (requires { a(int64_t{0}); })
    return RowFunction<T, A>{a};
  else
    return (a);
}

}  // namespace detail

/// Called from `put`, with the address of an element in column n0 of a row: prefetches the columns of that row that are
/// computed next.
template <class T>
inline void fetch_next_columns(const T* at) {
  for (int64_t i = 0; i < kPanel; i += 64 / int64_t{sizeof(T)})
    __builtin_prefetch(at + detail::Simd<float>::kPanels * kPanel + i, 0, 2);
}

namespace detail {

/// Contractions as all kernels of a file share them.
template <class T, class A, class W>
WEFT_ONE_COPY void contract_all(Team& team, const Contraction& c, const A& a, const PackedPanels<W>& b,
                                const TilePut<T>& put) {
  const Cut cut = detail::cut<T>(c, 1, team.threads());
  team.parallel(cut.row_blocks * cut.panel_groups, cut.grain,
                [&](int64_t begin, int64_t end) { contract_range(c, cut, a, b, begin, end, put); });
}
template <class T, class A, class W>
WEFT_ONE_COPY void contract_all_or_few(Team& team, const Contraction& c, const A& a, const PackedPanels<W>& b,
                                       const TilePut<T>& put) {
  const Cut cut = detail::cut<T>(c, 1, team.threads());
  const int64_t count = cut.row_blocks * cut.panel_groups;
  const bool from_end = c.m == 1 && team.comes_again(b.data);
  team.parallel(count, cut.grain, [&](int64_t begin, int64_t end) {
    contract_items(c, cut, a, b, from_end ? Items{count - end, count - begin, true} : Items{begin, end}, put);
  });
}

}  // namespace detail

/// a @ b for a packed b. `a` is Rows, Strided, or a function m -> pointer to the k elements of row m. Meant for more
/// than three rows: fewer are computed as well, but slowly. Products are of type T; b may be stored in 16 bits.
template <class T, class A, class W, class Put>
[[gnu::always_inline]] inline void contract(Team& team, const Contraction c, const A& a, const W* b, Put&& put) {
  detail::contract_all(team, c, detail::first_operand<T>(a), detail::PackedPanels<W>{b, c.packed_k ? c.packed_k : c.k},
                       detail::tile_put<T>(put, c.n));
}

/// The same for any number of rows, with tiles for one and for up to three.
template <class T, class A, class W, class Put>
[[gnu::always_inline]] inline void contract_few(Team& team, const Contraction c, const A& a, const W* b, Put&& put) {
  detail::contract_all_or_few(team, c, detail::first_operand<T>(a),
                              detail::PackedPanels<W>{b, c.packed_k ? c.packed_k : c.k}, detail::tile_put<T>(put, c.n));
}

/// For each i < batch: a_of(i) @ b_of(i), where b_of gives an Unpacked operand, packed on the fly into scratch memory.
/// a_of gives Rows or Strided. Calls put(i, m, n0, width, sums).
template <class T, class AOf, class BOf, class Put>
void contract_batch(Team& team, int64_t batch, const Contraction c, const AOf& a_of, const BOf& b_of, Put&& put) {
  const detail::Cut cut = detail::cut<T>(c, batch, team.threads());
  detail::for_each_contraction(team, batch, cut, [&](int64_t i, int64_t begin, int64_t end) {
    alignas(64) T scratch[detail::kScratch<T>];
    const auto a = a_of(i);
    const detail::PackingPanels<T> panels{b_of(i), c.n, scratch};
    auto put_here = [&](int64_t m, int64_t n0, auto width, const T* sums) { put(i, m, n0, width, sums); };
    const detail::TilePut<T> tile_put = detail::tile_put<T>(put_here, c.n);
    for (; begin < end; ++begin) detail::contract_item(c, detail::item_place<T>(c, cut, begin), a, panels, tile_put);
  });
}

/// The same where b_of gives a pointer to a packed operand.
template <class T, class AOf, class BOf, class Put>
void contract_packed_batch(Team& team, int64_t batch, const Contraction c, const AOf& a_of, const BOf& b_of,
                           Put&& put) {
  const detail::Cut cut = detail::cut<T>(c, batch, team.threads());
  detail::for_each_contraction(team, batch, cut, [&](int64_t i, int64_t begin, int64_t end) {
    using W = std::remove_cvref_t<decltype(*b_of(i))>;
    const detail::PackedPanels<W> panels{b_of(i), c.packed_k ? c.packed_k : c.k};
    auto put_here = [&](int64_t m, int64_t n0, auto width, const T* sums) { put(i, m, n0, width, sums); };
    detail::contract_items(c, cut, a_of(i), panels, {begin, end}, detail::tile_put<T>(put_here, c.n));
  });
}

}  // namespace weft

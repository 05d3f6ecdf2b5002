// Products of floats with a weight of few bits: numbers of 2, 4 or 8 bits in blocks along k. Each block of a column has
// a scale and a zero point of its own:
//
//   y[m, n] = sum over blocks b of (sum over k in b of a[m, k] * number[k, n] - zero[b, n] * sum over k in b of a[m,
//   k])
//             * scale[b, n]
//
// Numbers lie in words of 32 bits, neighbours along k in one word, the first of them in its lowest bits. Words and
// terms lie in panels of 16 columns, zero padded: words [ceil(n / 16)][k / numbers of a word][16], terms [ceil(n / 16)]
// [blocks][scale, zero][16].
//
// Up to three rows read words as they lie. A number is masked out of its word, where it is worth 2^(bits * place) times
// as much, and the element that it is multiplied with has been divided by that: both are exact. More rows share numbers
// that were made floats in scratch memory. A row has the same bits either way, whichever thread computes it. Numbers of
// a long block are added in parts (sum_type.h), each of which is scaled: it is as a block with the same terms.
#pragma once
#include "weft/contract.h"
#include "weft/scratch.h"

namespace weft {

/// The second operand. A block has `size` numbers, a multiple of a word's, at most kWholeK.
struct BlockWeight {
  const uint32_t* words;
  const float* terms;
  int64_t size;
};

namespace detail {

template <int kBits>
inline constexpr int kEach = 32 / kBits;  // numbers of a word

/// Numbers of a part of a block of so many: all of them, or equal parts of whole words.
template <int kBits>
constexpr int64_t part_of_block(int64_t size) {
  int64_t part = size <= kTermsInTurn ? size : 64;
  while (size % part != 0) part -= kEach<kBits>;
  return part;
}
/// Scales and zeros of some panels for parts from number `first` on; a block has `of_block` parts.
struct PartTerms {
  const float* at;
  int64_t stride, first, of_block;  // from one panel to the next
};

typedef uint32_t WordVector __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
typedef int32_t NumberVector __attribute__((vector_size(kVectorBytes)));
using FloatVector = Simd<float>::Vector;

[[gnu::always_inline]] inline FloatVector floats_of(WordVector numbers) {
  return __builtin_convertvector(NumberVector(numbers), FloatVector);
}

/// Adds to sums[r][c], of R rows and P panels, the products of some parts. `sum_part(i, sum)` adds those of part i to
/// sum[R][V], as they are without scale. `row_sums` are the sums of the rows' elements, one for each part.
template <int R, int P, class SumPart>
[[gnu::always_inline]] inline void sum_parts(const float* const (&row_sums)[R], const PartTerms& terms, int64_t parts,
                                             float* sums, const SumPart& sum_part) {
  using S = Simd<float>;
  constexpr int V = P * S::kPanelVectors;
  const float* block = terms.at + terms.first / terms.of_block * 2 * kPanel;
  const auto term = [&](int v, int64_t which) -> const FloatVector& {
    return *reinterpret_cast<const FloatVector*>(block + v / S::kPanelVectors * terms.stride + which * kPanel +
                                                 v % S::kPanelVectors * S::kLanes);
  };
  for (int64_t i = 0, left = terms.of_block - terms.first % terms.of_block; i < parts; ++i) {
    FloatVector sum[R][V];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) sum[r][v] = term(v, 1) * -row_sums[r][i];
    sum_part(i, sum);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) {
        FloatVector& out = *reinterpret_cast<FloatVector*>(sums + r * P * kPanel + v * S::kLanes);
        out += sum[r][v] * term(v, 0);
      }
    if (--left == 0) block += 2 * kPanel, left = terms.of_block;
  }
}

/// The same for packed words; the rows' elements were divided by the factors of their numbers.
template <int kBits, int R, int P>
[[gnu::noinline]] void words_tile(const float* const (&row)[R], const float* const (&row_sums)[R],
                                  const uint32_t* all_words, int64_t panel_stride, int64_t words,
                                  const PartTerms& terms, int64_t parts, float* sums) {
  using S = Simd<float>;
  constexpr int V = P * S::kPanelVectors, kLast = kEach<kBits> - 1;
  constexpr uint32_t kMask = (1u << kBits) - 1;
  sum_parts<R, P>(row_sums, terms, parts, sums, [&](int64_t i, FloatVector(&sum)[R][V]) {
    for (int64_t w = i * words; w < (i + 1) * words; ++w)
#pragma GCC unroll 16
      for (int j = 0; j <= kLast; ++j)
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) {
          const WordVector word = *reinterpret_cast<const WordVector*>(all_words + v / S::kPanelVectors * panel_stride +
                                                                       w * kPanel + v % S::kPanelVectors * S::kLanes);
          const FloatVector column = floats_of(j == kLast ? word >> (32 - kBits) : word & (kMask << (kBits * j)));
#pragma GCC unroll 4
          for (int r = 0; r < R; ++r) sum[r][v] += row[r][w * kEach<kBits> + j] * column;
        }
  });
}

/// Some words of a panel as floats: [numbers][16].
template <int kBits>
void unpack_words(const uint32_t* words, int64_t count, float* numbers) {
  using S = Simd<float>;
  constexpr uint32_t kMask = (1u << kBits) - 1;
  for (int64_t w = 0; w < count; ++w, words += kPanel, numbers += kEach<kBits> * kPanel)
#pragma GCC unroll 4
    for (int v = 0; v < S::kPanelVectors; ++v) {
      const WordVector word = *reinterpret_cast<const WordVector*>(words + v * S::kLanes);
#pragma GCC unroll 16
      for (int j = 0; j < kEach<kBits>; ++j)
        *reinterpret_cast<FloatVector*>(numbers + j * kPanel + v * S::kLanes) = floats_of(word >> (kBits * j) & kMask);
    }
}

/// Sums of rows and numbers that are floats already.
template <int R, int P, class A>
[[gnu::noinline]] void numbers_tile(const A& a, const float* const (&row_sums)[R], const float* numbers,
                                    int64_t panel_stride, const PartTerms& terms, int64_t parts, int64_t size,
                                    float* sums) {
  RowCursor<R, A> rows(a);
  PanelCursor<float, P> panels(numbers, panel_stride);
  sum_parts<R, P>(row_sums, terms, parts, sums, [&](int64_t, auto& sum) {
    for (int64_t i = 0; i < size; i += 4) add_steps<float, 4>(sum, rows, panels);
  });
}

/// A product with its weight, and for each row the sums of its elements over each part.
template <int kBits, class A>
struct BlockProduct {
  const Contraction& c;
  const A& a;
  const BlockWeight& weight;
  const float* row_sums;  // [m][parts]
  int64_t size, parts;    // numbers of a part, parts of k

  int64_t stored_k() const { return c.packed_k ? c.packed_k : c.k; }
  int64_t panel_words() const { return stored_k() / kEach<kBits> * kPanel; }
  int64_t panel_terms() const { return stored_k() / weight.size * 2 * kPanel; }
  int64_t words() const { return size / kEach<kBits>; }  // of a part

  /// The words of a panel from a part on.
  const uint32_t* words_at(int64_t panel, int64_t part) const {
    return weight.words + panel * panel_words() + part * words() * kPanel;
  }
  /// The terms of a panel and the next ones from a part on.
  PartTerms terms_at(int64_t panel, int64_t part) const {
    return {weight.terms + panel * panel_terms(), panel_terms(), part, weight.size / size};
  }
};

/// Calls the tile of `rows` rows, 1 .. R, for some parts from the first of `terms` on.
template <int R, int P, int kBits, class A>
void numbers_tile_of(int64_t rows, const BlockProduct<kBits, A>& product, int64_t m, const PartTerms& terms,
                     int64_t parts, const float* numbers, float* sums) {
  if constexpr (R > 1)
    if (rows < R) return numbers_tile_of<R - 1, P>(rows, product, m, terms, parts, numbers, sums);
  const int64_t size = product.size;
  const float* row_sums[R];
  for (int r = 0; r < R; ++r) row_sums[r] = product.row_sums + (m + r) * product.parts + terms.first;
  numbers_tile<R, P>(tile_rows<R>(product.a, m, terms.first * size), row_sums, numbers, parts * size * kPanel, terms,
                     parts, size, sums);
}

/// Up to kMost sums over all parts, which `add(first, parts)` adds to: in groups of parts, and those of groups in a
/// wider type (sum_type.h). `sums` begin as zeros.
template <int64_t kMost, class Add>
void sum_groups(int64_t parts, int64_t count, float* sums, const Add& add) {
  const Parts groups(parts, (parts + kPartsInTurn - 1) / kPartsInTurn);
  if (groups.count == 1) return add(int64_t{0}, parts);
  SumOfSums<float> totals[kMost];
  std::fill_n(totals, count, 0);
  for (int64_t g = 0, first = 0; g < groups.count; first += groups.size(g++)) {
    add(first, groups.size(g));
    for (int64_t i = 0; i < count; ++i) totals[i] += sums[i], sums[i] = 0;
  }
  for (int64_t i = 0; i < count; ++i) sums[i] = float(totals[i]);
}

/// Rows m0 .. m1 of P panels.
template <int P, int kBits, class A, class Put>
void put_blocks(const BlockProduct<kBits, A>& product, int64_t m0, int64_t m1, int64_t panel, Put& put) {
  constexpr int R = Simd<float>::kRows, W = P * int(kPanel);
  constexpr int64_t kMost = (kBlockRows + R) * W;
  alignas(64) float numbers[kScratch<float>];
  alignas(64) float sums[kMost];
  const int64_t size = product.size, most = kBlockK / size;
  const Parts tiles(m1 - m0, (m1 - m0 + R - 1) / R);
  std::fill_n(sums, (m1 - m0) * W, 0.0f);
  sum_groups<kMost>(product.parts, (m1 - m0) * W, sums, [&](int64_t first, int64_t of_group) {
    const Parts rounds(of_group, (of_group + most - 1) / most);
    for (int64_t round = 0, parts; round < rounds.count; ++round, first += parts) {
      parts = rounds.size(round);
      for (int p = 0; p < P; ++p)
        unpack_words<kBits>(product.words_at(panel + p, first), parts * product.words(),
                            numbers + p * parts * size * kPanel);
      const PartTerms terms = product.terms_at(panel, first);
      for (int64_t t = 0, m = m0, rows; t < tiles.count; ++t, m += rows) {
        rows = tiles.size(t);
        numbers_tile_of<R, P>(rows, product, m, terms, parts, numbers, sums + (m - m0) * W);
      }
    }
  });
  const int64_t n = panel * kPanel, width = std::min<int64_t>(W, product.c.n - n);
  for (int64_t m = m0; m < m1; ++m)
    for (int64_t c = 0; c < width; c += kPanel)
      put_row(m, n + c, std::min(kPanel, width - c), sums + (m - m0) * W + c, put);
}

/// R rows of P panels, with elements `divided` as words_tile needs them.
template <int R, int P, int kBits, class A, class Put>
void put_few(const BlockProduct<kBits, A>& product, const float* divided, int64_t panel, Put& put) {
  constexpr int W = P * int(kPanel);
  alignas(64) float sums[R * W] = {};
  sum_groups<R * W>(product.parts, R * W, sums, [&](int64_t first, int64_t parts) {
    const float *row[R], *row_sums[R];
    for (int r = 0; r < R; ++r) {
      row[r] = divided + r * product.c.k + first * product.size;
      row_sums[r] = product.row_sums + r * product.parts + first;
    }
    words_tile<kBits, R, P>(row, row_sums, product.words_at(panel, first), product.panel_words(), product.words(),
                            product.terms_at(panel, first), parts, sums);
  });
  const int64_t n = panel * kPanel, width = std::min<int64_t>(W, product.c.n - n);
  for (int64_t r = 0; r < R; ++r)
    for (int64_t c = 0; c < width; c += kPanel) put_row(r, n + c, std::min(kPanel, width - c), sums + r * W + c, put);
}

/// Panels begin .. end of a product of R rows: eight vectors of sums hide the latency of additions.
template <int R, int kBits, class A, class Put>
void put_few_panels(const BlockProduct<kBits, A>& product, const float* divided, int64_t begin, int64_t end, Put& put) {
  constexpr int P = std::max(1, (R == 1 ? 8 : 4) / Simd<float>::kPanelVectors);
  for (; begin + P <= end; begin += P) put_few<R, P>(product, divided, begin, put);
  for (; begin < end; ++begin) put_few<R, 1>(product, divided, begin, put);
}

/// The sum of a part of a row, four sums side by side.
template <class A>
float part_sum(const A& a, int64_t m, int64_t first, int64_t size) {
  const RowCursor<1, TileRows<1, A>> row(tile_rows<1>(a, m, first));
  float sum[4] = {};
  for (int64_t i = 0; i < size; i += 4)
    for (int64_t j = 0; j < 4; ++j) sum[j] += row.at(0, i + j);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/// Panels of one item; the last item may have fewer.
struct ItemPanels {
  ItemPanels(const Contraction& c, int64_t first_item, int64_t end_item)
      : begin(first_item * Simd<float>::kPanels),
        end(std::min(end_item * Simd<float>::kPanels, (c.n + kPanel - 1) / kPanel)) {}
  int64_t begin, end;
};

template <int kBits, class A, class Put>
void put_item(const BlockProduct<kBits, A>& product, const Cut& cut, int64_t item, Put& put) {
  constexpr int P = Simd<float>::kPanels;
  const int64_t block = item / cut.panel_groups, group = item % cut.panel_groups, m = product.c.m;
  const int64_t m0 = m * block / cut.row_blocks, m1 = m * (block + 1) / cut.row_blocks;
  const ItemPanels panels(product.c, group, group + 1);
  if (panels.end - panels.begin < P) return put_blocks<1>(product, m0, m1, panels.begin, put);
  put_blocks<P>(product, m0, m1, panels.begin, put);
}

/// Calls run(product) with the sums of rows.
template <int kBits, class A, class Run>
void with_row_sums(Team& team, const Contraction& c, const A& a, const BlockWeight& weight, const Run& run) {
  const int64_t size = part_of_block<kBits>(weight.size), parts = c.k / size;
  const Scratch<float> sums(c.m * parts);
  team.parallel(c.m, std::max<int64_t>(1, 4096 / c.k), [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin)
      for (int64_t i = 0; i < parts; ++i) sums[begin * parts + i] = part_sum(a, begin, i * size, size);
  });
  run(BlockProduct<kBits, A>{c, a, weight, sums.get(), size, parts});
}

/// A product of up to three rows.
template <int kBits, class A, class Put>
void put_few_rows(Team& team, const BlockProduct<kBits, A>& product, const Cut& cut, Put& put) {
  const Contraction& c = product.c;
  const Scratch<float> divided(c.m * c.k);
  for (int64_t m = 0; m < c.m; ++m) {
    const RowCursor<1, TileRows<1, A>> row(tile_rows<1>(product.a, m, 0));
    for (int64_t i = 0; i < c.k; ++i) {
      const int place = int(i % kEach<kBits>);
      const float worth = place == kEach<kBits> - 1 ? 1.0f : float(uint32_t{1} << (kBits * place));
      divided[m * c.k + i] = row.at(0, i) / worth;
    }
  }
  team.parallel(cut.panel_groups, cut.grain, [&](int64_t begin, int64_t end) {
    const ItemPanels panels(c, begin, end);
    if (c.m == 1) return put_few_panels<1>(product, divided.get(), panels.begin, panels.end, put);
    if (c.m == 2) return put_few_panels<2>(product, divided.get(), panels.begin, panels.end, put);
    put_few_panels<3>(product, divided.get(), panels.begin, panels.end, put);
  });
}

}  // namespace detail

/// a @ b for a weight of numbers of kBits bits. `a` as in contract(); calls put(m, n0, width, sums). Meant for more
/// than three rows: fewer are computed as well, but slowly.
template <int kBits, class A, class Put>
void contract_blocks(Team& team, const Contraction c, const A& a, const BlockWeight weight, Put&& put) {
  const detail::Cut cut = detail::cut<float>(c, 1, team.threads());
  const auto& rows = detail::first_operand<float>(a);
  detail::with_row_sums<kBits>(team, c, rows, weight, [&](const auto& product) {
    team.parallel(cut.row_blocks * cut.panel_groups, cut.grain, [&](int64_t begin, int64_t end) {
      for (; begin < end; ++begin) detail::put_item(product, cut, begin, put);
    });
  });
}

/// The same for any number of rows.
template <int kBits, class A, class Put>
void contract_few_blocks(Team& team, const Contraction c, const A& a, const BlockWeight weight, Put&& put) {
  if (c.m > detail::kFewRows) return contract_blocks<kBits>(team, c, a, weight, put);
  const detail::Cut cut = detail::cut<float>(c, 1, team.threads());
  const auto& rows = detail::first_operand<float>(a);
  detail::with_row_sums<kBits>(team, c, rows, weight,
                               [&](const auto& product) { detail::put_few_rows(team, product, cut, put); });
}

}  // namespace weft

// Tiles of direct convolutions (weft/direct_convolution.h): sums of some outputs and filters, whose terms are runs of
// memory.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "weft/bfloat_pairs.h"
#include "weft/bordered_image.h"
#include "weft/bytes.h"
#include "weft/contract.h"

namespace weft {
namespace detail {

/// Offsets of an output's terms from the first one: `total` runs of `length` elements. Each run begins `step` elements
/// after the begin of the previous one, and `row_turn` or `plane_turn` more after the end of a row or plane of taps.
struct TapRuns {
  int64_t total, length, step;
  int64_t in_row, row_turn;
  int64_t in_plane, plane_turn;  // rows of taps
  int64_t part;                  // terms that are added in turn: of a run, or of all runs if they are short
  int64_t left_out = 0;          // runs before the first one

  /// Terms of a run, or as many as a part of a sum has.
  [[gnu::always_inline]] int64_t turn() const { return next_part(length, part); }
};

/// Iterates over the runs of the taps in order.
class RunWalk {
 public:
  [[gnu::always_inline]] explicit RunWalk(const TapRuns& runs) : runs_(runs) {}
  /// The distance to the next run.
  [[gnu::always_inline]] int64_t next() {
    if (++taps_ < runs_.in_row) return runs_.step;
    taps_ = 0;
    if (++rows_ < runs_.in_plane) return runs_.step + runs_.row_turn;
    rows_ = 0;
    return runs_.step + runs_.row_turn + runs_.plane_turn;
  }

 private:
  const TapRuns& runs_;
  int64_t taps_ = 0, rows_ = 0;
};

/// Neighbouring taps of a row are one run if nothing lies between their channels.
constexpr TapRuns tap_runs(const SlidingWindow& w, const Convolution& c, const BorderedImage& image) {
  const bool joined = c.groups == 1 && (w.dilation[2] == 1 || w.taps[2] == 1);
  const int64_t in_row = joined ? 1 : w.taps[2], step = w.dilation[2] * image.channels;
  const int64_t row = w.dilation[1] * image.extent[2] * image.channels;
  const int64_t plane = w.dilation[0] * image.extent[1] * image.extent[2] * image.channels;
  const int64_t total = w.taps[0] * w.taps[1] * in_row, length = joined ? w.taps[2] * c.channels : c.channels;
  return {.total = total,
          .length = length,
          .step = step,
          .in_row = in_row,
          .row_turn = row - in_row * step,
          .in_plane = w.taps[1],
          .plane_turn = plane - w.taps[1] * row,
          .part = part_of(length > kTermsInTurn ? length : total * length)};
}

template <class T>
using SumsOf = typename SumOf<T>::Type;

template <class T>
struct OutputTile {
  static constexpr int kPanels = Simd<SumsOf<T>>::kPanels;
  /// Rows of a tile that keep the vector units busy. With 12 rows of 512 bits the addresses do not fit into registers,
  /// and rows 4 KB apart do not fit into the first cache, which holds 8 lines of one address modulo 4 KB.
  static constexpr int kRows = kVectorBytes == 64 ? 8 : Simd<SumsOf<T>>::kRows;
  /// Terms of one round of the loop. With few rows, a round must be longer to amortise its jump and its address
  /// additions.
  static constexpr int kSteps = kVectorBytes == 64 ? 4 : 8;
  /// A panel of which at most half is used has kHalf vectors. Its tile has kHalfRows rows if there is no other panel.
  static constexpr int kHalf = half_panel<SumsOf<T>>;
  static constexpr int kHalfRows = std::max(kRows, 8);
};

/// The part of an element of the first operand that add_products multiplies at once.
template <int kFactor, class T>
[[gnu::always_inline]] inline auto factor_of(const T& x) {
  if constexpr (is_byte_quad<T>)
    return multiplied_bytes(x);
  else if constexpr (is_bfloat_pair<T>)
    return pair_factor<T::kDotProduct, kFactor>(PairVector{} + x.bits);
  else
    return x;
}
/// The same for neighbouring elements of the second operand.
template <class T, int kFactor, class Vector>
[[gnu::always_inline]] inline Vector factors_of(const Vector& w) {
  if constexpr (is_bfloat_pair<T>)
    return pair_factor<T::kDotProduct, kFactor>(PairVector(w));
  else
    return w;
}

/// sum += x * w in each lane, x being the same in all lanes.
template <class T, class Vector, class Factor>
[[gnu::always_inline]] inline void add_products(Vector& sum, Factor x, const Vector& w) {
  if constexpr (is_byte_quad<T>)
    sum = add_byte_products<T::kDot>(sum, x, w);
  else if constexpr (is_bfloat_pair<T>)
    add_pair_products<T::kDotProduct>(sum, x, w);
  else
    sum += x * w;
}

/// The sums of a tile in memory, with rows kRow apart. At the end of each part of the terms, the sums in registers are
/// added to them. A part ends after the run that is nearest to its length. The positions of terms in the filter
/// determine the parts, so that an output has the same bits in any tile. Very many parts are added up in a wider type
/// (sum_type.h).
template <class T, int R, int kRow>
class TileParts {
 public:
  [[gnu::always_inline]] TileParts(const TapRuns& runs, T* sums)
      : sums_(sums), turn_(runs.turn()), part_(runs.part), room_(part_ - (runs.left_out * turn_ + turn_ / 2) % part_) {
    asm("" : "=m"(wide_));  // g++ does not see that it is written before it is read
  }
  /// Called after some terms of a run, of which `left` remain. Returns whether a part ends here.
  [[gnu::always_inline]] bool ends(int64_t left) {
    if (left > 0) return true;
    room_ -= turn_;
    if (room_ > 0) return false;
    room_ += part_;
    return true;
  }
  /// Adds the sums in registers and sets those to 0.
  template <int V, class Vector>
  [[gnu::always_inline]] void add(Vector (&sum)[R][V]) {
    if (parts_ == kPartsInTurn) widen<V* int(sizeof(Vector) / sizeof(T))>();
    put(sum);
    ++parts_;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) sum[r][v] = Vector{};
  }
  /// The same for the last part.
  template <int V, class Vector>
  [[gnu::always_inline]] void finish(Vector (&sum)[R][V]) {
    constexpr int kColumns = V * int(sizeof(Vector) / sizeof(T));
    put(sum);
    if (!is_wide_) return;
    widen<kColumns>();
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < kColumns; ++c) sums_[r * kRow + c] = T(wide_[r][c]);
  }

 private:
  template <int V, class Vector>
  [[gnu::always_inline]] void put(Vector (&sum)[R][V]) {
    constexpr int kLanes = sizeof(Vector) / sizeof(T);
    const auto at = [&](int r, int v) -> Vector& { return *reinterpret_cast<Vector*>(sums_ + r * kRow + v * kLanes); };
    if (parts_ > 0)
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) sum[r][v] += at(r, v);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) at(r, v) = sum[r][v];
  }
  template <int kColumns>
  [[gnu::always_inline]] void widen() {
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < kColumns; ++c) wide_[r][c] = (is_wide_ ? wide_[r][c] : 0) + sums_[r * kRow + c];
    is_wide_ = true, parts_ = 0;
  }
  T* const sums_;
  const int64_t turn_, part_;
  int64_t room_, parts_ = 0;
  bool is_wide_ = false;
  SumOfSums<T> wide_[R][kRow];
};

/// sums[r][c] of R outputs and the first V vectors of P panels. `first[r]` is the place of an output's first term. Sums
/// of bytes start from `start[c]`.
template <class T, int R, int P, int V>
[[gnu::always_inline]] inline void sum_output_tile(const T* x, const int64_t* first, const TapRuns& runs, const T* b,
                                                   int64_t panel_stride, SumsOf<T>* sums, Prefetch<T> next,
                                                   const SumsOf<T>* start) {
  using S = Simd<SumsOf<T>>;
  using Vector = typename S::Vector;
  constexpr int kSteps = OutputTile<T>::kSteps;
  constexpr bool kHasParts = !is_byte_quad<T>;  // integers lose no digits
  TileParts<SumsOf<T>, R, P* int(kPanel)> parts(runs, sums);
  Vector sum[R][V] = {};
  if constexpr (is_byte_quad<T>)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) sum[r][v] = *reinterpret_cast<const Vector*>(start + v * S::kLanes);
  const T *row[R], *panel[P];
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) panel[p] = b + p * panel_stride;
  const auto multiply_factor = [&]<int kFactor>(int64_t i) __attribute__((always_inline)) {
    Vector column[V];
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v)
      column[v] = factors_of<T, kFactor>(*reinterpret_cast<const Vector*>(panel[v / S::kPanelVectors] + i * kPanel +
                                                                          v % S::kPanelVectors * S::kLanes));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const auto value = factor_of<kFactor>(row[r][i]);
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) add_products<T>(sum[r][v], value, column[v]);
    }
  };
  const auto multiply = [&](int64_t i) __attribute__((always_inline)) {
    multiply_factor.template operator()<0>(i);
    if constexpr (kFactors < T >> 1) multiply_factor.template operator()<1>(i);
  };
  const auto advance = [&](int64_t steps) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) panel[p] += steps * kPanel;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) row[r] += steps;
  };
  RunWalk walk(runs);
  for (int64_t run = runs.total; run > 0; --run) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) row[r] = x + first[r];
    int64_t length = runs.length;
    do {
      int64_t left = kHasParts ? next_part(length, runs.part) : length;
      length -= left;
      for (; left >= kSteps; left -= kSteps) {
        __builtin_prefetch(next.at, 0, 2);
        next.at += next.bytes;
#pragma GCC unroll 8
        for (int i = 0; i < kSteps; ++i) multiply(i);
        advance(kSteps);
      }
      for (; left > 0; --left) multiply(0), advance(1);
      if (kHasParts && (run > 1 || length > 0) && parts.ends(length)) parts.add(sum);
    } while (length > 0);
    x += walk.next();
  }
  parts.finish(sum);
}

/// sum_output_tile as a function of its own.
template <class T, int R, int P, int V>
[[gnu::noinline]] void output_tile(const T* x, const int64_t* first, const TapRuns& runs, const T* b,
                                   int64_t panel_stride, SumsOf<T>* sums, Prefetch<T> next, const SumsOf<T>* start) {
  sum_output_tile<T, R, P, V>(x, first, runs, b, panel_stride, sums, next, start);
}

/// The same in the runtime library, as library_tile of contract.h.
template <Level kFor, class T, int R, int P, int V>
[[gnu::used]] void library_output_tile(const T* x, const int64_t* first, const TapRuns& runs, const T* b,
                                       int64_t panel_stride, SumsOf<T>* sums, Prefetch<T> next, const SumsOf<T>* start);

/// Calls the tile of `rows` rows, 1 .. R.
template <class T, int R, int P, int V = P* Simd<SumsOf<T>>::kPanelVectors>
void output_tile_of(int64_t rows, const T* x, const int64_t* first, const TapRuns& runs, const T* b,
                    int64_t panel_stride, SumsOf<T>* sums, Prefetch<T> next, const SumsOf<T>* start) {
  if constexpr (R > 1)
    if (rows < R) return output_tile_of<T, R - 1, P, V>(rows, x, first, runs, b, panel_stride, sums, next, start);
  if constexpr (has_library_tiles<T>())
    library_output_tile<kLevel, T, R, P, V>(x, first, runs, b, panel_stride, sums, next, start);
  else
    output_tile<T, R, P, V>(x, first, runs, b, panel_stride, sums, next, start);
}

/// The number of channels and filters of a group such that two groups fill a vector of 512 bits.
inline constexpr int64_t kPairedGroup = 8;
/// Whether groups of that size are computed in pairs. An element is multiplied with one vector of filters only, and a
/// core does about one broadcast from memory per cycle. A pair's channels are 16 neighbouring elements, which are
/// broadcast in registers.
template <class T>
inline constexpr bool kPairsGroups = kVectorBytes == 64 && std::is_same_v<T, float>;
inline constexpr int kGroupPairRows = 8;

/// sums[r][8 * g + f] of R outputs, two groups g and their filters f. Terms are added as output_tile adds them.
template <int R>
[[gnu::always_inline]] inline void sum_group_pair_tile(const float* x, const int64_t* first, const TapRuns& runs,
                                                       const float* b, int64_t panel_stride, float* sums) {
  typedef float Half __attribute__((vector_size(32), aligned(4), may_alias));
  typedef float Vector __attribute__((vector_size(64), aligned(4), may_alias));
  Vector sum[R][1] = {};
  TileParts<float, R, kPanel> parts(runs, sums);
  const float *row[R], *panel = b;
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) row[r] = x + first[r];
  RunWalk walk(runs);
  int64_t at = 0;
  for (int64_t run = runs.total; run > 0; --run, panel += kPairedGroup * kPanel) {
    Vector factor[kPairedGroup];
#pragma GCC unroll 8
    for (int64_t c = 0; c < kPairedGroup; ++c)
      factor[c] = __builtin_shufflevector(*reinterpret_cast<const Half*>(panel + c * kPanel),
                                          *reinterpret_cast<const Half*>(panel + panel_stride + c * kPanel), 0, 1, 2, 3,
                                          4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vector both = *reinterpret_cast<const Vector*>(row[r] + at);
      const auto add_four = [&](Vector four, const Vector* factors) __attribute__((always_inline)) {
        sum[r][0] +=
            __builtin_shufflevector(four, four, 0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12) * factors[0];
        sum[r][0] +=
            __builtin_shufflevector(four, four, 1, 1, 1, 1, 5, 5, 5, 5, 9, 9, 9, 9, 13, 13, 13, 13) * factors[1];
        sum[r][0] +=
            __builtin_shufflevector(four, four, 2, 2, 2, 2, 6, 6, 6, 6, 10, 10, 10, 10, 14, 14, 14, 14) * factors[2];
        sum[r][0] +=
            __builtin_shufflevector(four, four, 3, 3, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11, 15, 15, 15, 15) * factors[3];
      };
      add_four(__builtin_shufflevector(both, both, 0, 1, 2, 3, 0, 1, 2, 3, 8, 9, 10, 11, 8, 9, 10, 11), factor);
      add_four(__builtin_shufflevector(both, both, 4, 5, 6, 7, 4, 5, 6, 7, 12, 13, 14, 15, 12, 13, 14, 15), factor + 4);
    }
    if (run > 1 && parts.ends(0)) parts.add(sum);
    at += walk.next();
  }
  parts.finish(sum);
}

/// The same as a function of its own, and in the runtime library.
template <int R>
[[gnu::noinline]] void group_pair_tile(const float* x, const int64_t* first, const TapRuns& runs, const float* b,
                                       int64_t panel_stride, float* sums) {
  sum_group_pair_tile<R>(x, first, runs, b, panel_stride, sums);
}
template <Level kFor, int R>
[[gnu::used]] void library_group_pair_tile(const float* x, const int64_t* first, const TapRuns& runs, const float* b,
                                           int64_t panel_stride, float* sums);

}  // namespace detail
}  // namespace weft

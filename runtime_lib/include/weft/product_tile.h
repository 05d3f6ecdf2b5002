// Tiles of dense products: R rows of a first operand times panels of 16 columns (panels.h), whose sums lie in
// registers.
//
// A sum of many terms is made of parts, so that it keeps its digits. Terms of a part are added in registers, parts in
// the memory of the tile. The boundaries of parts follow from k alone.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "weft/level.h"
#include "weft/panels.h"
#include "weft/sum_type.h"

namespace weft {

/// First operand: row m begins at data + m * row and has unit stride along k.
template <class T>
struct Rows {
  const T* data;
  int64_t row;
};
/// First operand with any stride along k, such as a transposed one.
template <class T>
struct Strided {
  const T* data;
  int64_t row, k;
};
namespace detail {

/// Whether tiles of T are called in the runtime library, which has them for each level of CPUs. Only the compiler
/// defines WEFT_TILES, for kernels that it links with its own library. Emitted sources compile their own tiles. With
/// -march=native, vectors may be wider than those of the CPU's level, which the library's tiles use.
template <class T>
constexpr bool has_library_tiles() {
#if defined(WEFT_TILES)
  constexpr int kLevelBytes = kLevel == Level::V4 ? 64 : kLevel == Level::V3 ? 32 : 16;
  return kVectorBytes == kLevelBytes && std::is_floating_point_v<T>;
#else
  return false;
#endif
}

/// Vectors of a panel of which at most half is used. It is less than a whole panel where vectors are short.
template <class T>
inline constexpr int half_panel = std::max(1, Simd<T>::kPanelVectors / 2);

/// Few rows cannot hide the latency of an addition, so a tile of few rows takes more panels. The sums over k are not
/// cut for it: the order of additions follows from k alone. A row thus has the same bits for any number of rows and
/// threads.
inline constexpr int64_t kFewRows = 3;
template <class T>
constexpr int panels_of_few(int64_t rows) {
  using S = Simd<T>;
  return std::max(S::kPanels, rows == 1 ? std::min(4, 8 / S::kPanelVectors) : 4 / S::kPanelVectors);
}

/// Rows given by a function m -> pointer; unit stride along k.
template <class T, class F>
struct RowFunction {
  const F& f;
};

/// The stride along k of rows that are not Strided.
using UnitStep = std::integral_constant<int64_t, 1>;

/// The rows of one tile: the first of them, the distance of the next one, and the stride along k.
template <class T, class Step>
struct EvenRows {
  const T* first;
  int64_t row;
  Step step;
};
/// Rows of one tile that lie anywhere, with unit stride along k.
template <class T, int R>
struct ScatteredRows {
  const T* row[R];
};

/// Rows m .. m + R from step k on.
template <int R, class T>
inline EvenRows<T, UnitStep> tile_rows(const Rows<T>& a, int64_t m, int64_t k) {
  return {a.data + m * a.row + k, a.row, {}};
}
template <int R, class T>
inline EvenRows<T, int64_t> tile_rows(const Strided<T>& a, int64_t m, int64_t k) {
  return {a.data + m * a.row + k * a.k, a.row, a.k};
}
template <int R, class T, class F>
inline ScatteredRows<T, R> tile_rows(const RowFunction<T, F>& a, int64_t m, int64_t k) {
  ScatteredRows<T, R> rows;
  for (int r = 0; r < R; ++r) rows.row[r] = a.f(m + r) + k;
  return rows;
}

template <int R, class A>
using TileRows = decltype(tile_rows<R>(std::declval<const A&>(), 0, 0));

/// The current position of a tile in its R rows. x86 has 16 registers, too few for a pointer to each of many rows. One
/// pointer serves four rows there, since an address may be the sum of two registers.
template <int R, class A>
class RowCursor;
template <int R, class T, class Step>
class RowCursor<R, EvenRows<T, Step>> {
 public:
  [[gnu::always_inline]] explicit RowCursor(const EvenRows<T, Step>& a)
      : row_(a.row), three_rows_(3 * a.row), step_(a.step) {
#pragma GCC unroll 16
    for (int p = 0; p < kPointers; ++p) at_[p] = a.first + p * kRowsOfPointer * a.row;
  }
  [[gnu::always_inline]] T at(int r, int64_t i) const {
    const int after = r % kRowsOfPointer;
    return (at_[r / kRowsOfPointer] + (after == 3 ? three_rows_ : after * row_))[distance(i)];
  }
  [[gnu::always_inline]] void advance(int64_t steps) {
#pragma GCC unroll 16
    for (int p = 0; p < kPointers; ++p) at_[p] += distance(steps);
    // Else g++ precomputes the sum of each distance and each step of a round, and these do not fit into registers
    // either.
    if constexpr (kRowsOfPointer > 1) asm("" : "+r"(row_), "+r"(three_rows_));
  }

 private:
#if defined(__x86_64__)
  static constexpr int kRowsOfPointer = R > 6 ? 4 : 1;
#else
  static constexpr int kRowsOfPointer = 1;
#endif
  static constexpr int kPointers = (R + kRowsOfPointer - 1) / kRowsOfPointer;
  /// A separate case because g++ warns that the empty step_ of unit steps is uninitialised.
  [[gnu::always_inline]] int64_t distance(int64_t steps) const {
    if constexpr (std::is_same_v<Step, UnitStep>)
      return steps;
    else
      return steps * step_;
  }
  const T* at_[kPointers];
  int64_t row_, three_rows_;
  Step step_;
};
template <int R, class T>
class RowCursor<R, ScatteredRows<T, R>> {
 public:
  [[gnu::always_inline]] explicit RowCursor(const ScatteredRows<T, R>& a) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) at_[r] = a.row[r];
  }
  [[gnu::always_inline]] T at(int r, int64_t i) const { return at_[r][i]; }
  [[gnu::always_inline]] void advance(int64_t steps) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) at_[r] += steps;
  }

 private:
  const T* at_[R];
};

/// The current position of a tile in its P panels.
template <class W, int P>
class PanelCursor {
 public:
  [[gnu::always_inline]] PanelCursor(const W* first, int64_t panel_stride) {
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) at_[p] = first + p * panel_stride;
  }
  [[gnu::always_inline]] const W* at(int p, int64_t i) const { return at_[p] + i * kPanel; }
  [[gnu::always_inline]] void advance(int64_t steps) {
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) at_[p] += steps * kPanel;
  }

 private:
  const W* at_[P];
};

template <class T>
struct Prefetch {
  const char* at;  // in the next panel
  int64_t bytes;   // to prefetch every kRound steps
};

/// Steps of one round of a tile's loop. Wide vectors leave few registers for addresses, and g++ needs more of them for
/// longer rounds. With few rows, a round must be longer to amortise its jump and its address additions.
template <int R>
inline constexpr int kRound = kVectorBytes == 64 && R > kFewRows ? 4 : 8;

/// sum[r] += row r * the panels in V vectors, for kSteps steps. Advances both cursors.
template <class T, int kSteps, int R, int V, class Vector, class Rows, class Panels>
[[gnu::always_inline]] inline void add_steps(Vector (&sum)[R][V], Rows& rows, Panels& panels) {
  using S = Simd<T>;
#pragma GCC unroll 8
  for (int i = 0; i < kSteps; ++i) {
    Vector column[V];
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v)
      column[v] = columns_at<Vector>(panels.at(v / S::kPanelVectors, i) + v % S::kPanelVectors * S::kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const T x = rows.at(r, i);
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) sum[r][v] += x * column[v];
    }
  }
  rows.advance(kSteps);
  panels.advance(kSteps);
}

/// The same for k steps.
template <class T, int R, int V, class Vector, class Rows, class Panels>
[[gnu::always_inline]] inline void add_all_steps(Vector (&sum)[R][V], Rows& rows, Panels& panels, int64_t k,
                                                 Prefetch<T>& next) {
  for (; k >= kRound<R>; k -= kRound<R>) {
    if constexpr (R > kFewRows) __builtin_prefetch(next.at, 0, 2), next.at += next.bytes;
    add_steps<T, kRound<R>>(sum, rows, panels);
  }
  for (; k > 0; --k) add_steps<T, 1>(sum, rows, panels);
}

/// sum[r] += before[r].
template <int R, int V, class Vector>
[[gnu::always_inline]] inline void add_tile(Vector (&sum)[R][V], const Vector (&before)[R][V]) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) sum[r][v] += before[r][v];
}
/// Moves sums out of the registers and sets those to 0.
template <int R, int V, class Vector>
[[gnu::always_inline]] inline void take_tile(Vector (&sum)[R][V], Vector (&taken)[R][V]) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) taken[r][v] = sum[r][v], sum[r][v] = Vector{};
}

/// sums[r][c] (+)= the rows times the first V vectors of P panels of k steps. Sums lie in rows of P * 16.
template <class T, int R, int P, int V, class A, class W>
[[gnu::always_inline]] inline void sum_tile(const A& a, const W* b, int64_t panel_stride, int64_t k, T* sums, bool add,
                                            Prefetch<T> next) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  RowCursor<R, A> rows(a);
  PanelCursor<W, P> panels(b, panel_stride);
  const int64_t part = part_of(k);
  do {
    Vector sum[R][V] = {};
    add_all_steps<T>(sum, rows, panels, next_part(k, part), next);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) {
        Vector& out = *reinterpret_cast<Vector*>(sums + int64_t{r} * P * kPanel + int64_t{v} * S::kLanes);
        out = add ? out + sum[r][v] : sum[r][v];
      }
    add = true, k -= part;
  } while (k > 0);
}

/// sum_tile as a function of its own.
template <class T, int R, int P, int V, class A, class W>
[[gnu::noinline]] void tile(const A& a, const W* b, int64_t panel_stride, int64_t k, T* sums, bool add,
                            Prefetch<T> next) {
  sum_tile<T, R, P, V>(a, b, panel_stride, k, sums, add, next);
}

/// The same, defined in the runtime library (tiles/tiles.cpp). The level is a template argument because functions for
/// different CPUs are in one archive.
template <Level kFor, class T, int R, int P, int V, class A>
[[gnu::used]] void library_tile(const A& a, const T* b, int64_t panel_stride, int64_t k, T* sums, bool add,
                                Prefetch<T> next);

/// Calls the tile with `rows` rows, 1 .. R.
template <class T, int R, int P, int V = P* Simd<T>::kPanelVectors, class A, class W>
void tile_of(int64_t rows, const A& a, int64_t m, int64_t k0, const W* b, int64_t panel_stride, int64_t k, T* sums,
             bool add, Prefetch<T> next) {
  if constexpr (R > 1)
    if (rows < R) return tile_of<T, R - 1, P, V>(rows, a, m, k0, b, panel_stride, k, sums, add, next);
  const auto taken = tile_rows<R>(a, m, k0);
  if constexpr (has_library_tiles<T>() && std::is_same_v<T, W>)
    library_tile<kLevel, T, R, P, V>(taken, b, panel_stride, k, sums, add, next);
  else
    tile<T, R, P, V>(taken, b, panel_stride, k, sums, add, next);
}

}  // namespace detail
}  // namespace weft

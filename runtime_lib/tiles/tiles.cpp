// The tiles of products and convolutions for one level of CPUs, that of this file's flags. Kernels that the compiler
// links with its own library call them: tiles do not depend on the kernel, and take a third of the time that
// a small one compiles, with AVX-512 more than half.
//
// Nothing but tiles may become a symbol here: a linker that finds a function in two places takes either, and a function
// for a newer CPU would run on an older one.
#include "weft/channel_tiles.h"
#include "weft/contract.h"
#include "weft/direct_convolution.h"

namespace weft::detail {

template <Level kFor, class T, int R, int P, int V, class A>
void library_tile(const A& a, const T* b, int64_t panel_stride, int64_t k, T* sums, bool add, Prefetch<T> next) {
  sum_tile<T, R, P, V>(a, b, panel_stride, k, sums, add, next);
}

template <Level kFor, class T, int R, int P, int V>
void library_output_tile(const T* x, const int64_t* first, const TapRuns& runs, const T* b, int64_t panel_stride,
                         SumsOf<T>* sums, Prefetch<T> next, const SumsOf<T>* start) {
  sum_output_tile<T, R, P, V>(x, first, runs, b, panel_stride, sums, next, start);
}

template <Level kFor, int R>
void library_group_pair_tile(const float* x, const int64_t* first, const TapRuns& runs, const float* b,
                             int64_t panel_stride, float* sums) {
  sum_group_pair_tile<R>(x, first, runs, b, panel_stride, sums);
}

template <Level kFor, TapRow kRow, bool kEdge, class T>
void library_row_tile(const TiledConvolution<T>& convolution, const ConvolvedRow<T>& row, const RowTile& tile) {
  convolve_tile<kRow, kEdge>(convolution, row, tile);
}

namespace {

/// Names the tiles of 1 .. R rows: what is named is compiled.
template <class T, int R, int P, int V = P* Simd<T>::kPanelVectors>
constexpr void name_tiles() {
  if constexpr (R > 1) name_tiles<T, R - 1, P, V>();
  (void)&library_tile<kLevel, T, R, P, V, EvenRows<T, UnitStep>>;
  (void)&library_tile<kLevel, T, R, P, V, EvenRows<T, int64_t>>;
  (void)&library_tile<kLevel, T, R, P, V, ScatteredRows<T, R>>;
}
template <class T, int R, int P, int V = P* Simd<T>::kPanelVectors>
constexpr void name_output_tiles() {
  if constexpr (R > 1) name_output_tiles<T, R - 1, P, V>();
  (void)&library_output_tile<kLevel, T, R, P, V>;
}

template <size_t... kIndex>
constexpr void name_row_tiles(std::index_sequence<kIndex...>) {
  ((void)&library_row_tile<kLevel, kLibraryRows[kIndex], false, float>, ...);
  ((void)&library_row_tile<kLevel, kLibraryRows[kIndex], true, float>, ...);
}

/// All that contract_item, contract_few, convolve_items and multiply_points ask for.
template <class T>
constexpr bool name_all() {
  name_tiles<T, Simd<T>::kRows, 1>();
  name_tiles<T, Simd<T>::kRows, Simd<T>::kPanels>();
  name_tiles<T, 1, panels_of_few<T>(1)>();
  name_tiles<T, kFewRows, panels_of_few<T>(kFewRows)>();
  name_tiles<T, std::max(Simd<T>::kRows, int(kFewRows)), 1, half_panel<T>>();
  name_output_tiles<T, OutputTile<T>::kHalfRows, 1, OutputTile<T>::kHalf>();
  name_output_tiles<T, OutputTile<T>::kRows, 1>();
  name_output_tiles<T, OutputTile<T>::kRows, OutputTile<T>::kPanels>();
  if constexpr (kPairsGroups<T>) (void)&library_group_pair_tile<kLevel, kGroupPairRows>;
  if constexpr (std::is_same_v<T, float>) name_row_tiles(std::make_index_sequence<kLibraryRows.size()>());
  return has_library_tiles<T>();
}
static_assert(name_all<float>() && name_all<double>(), "the vectors of this file are not those of its level");

}  // namespace

}  // namespace weft::detail

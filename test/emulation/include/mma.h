// Warp matrix functions on the CPU: products of 16 x 16 by 16 x 16 of 16-bit floats. Lane 2 r and lane 2 r + 1 have
// half of row r of the sums each, and what of the operands these need.
#pragma once
#include <cstdint>

#include "weft/numeric.h"
#include "weft_emulation/kernel_language.h"

struct __half : weft::half {};
struct __nv_bfloat16 : weft::bfloat16 {};

namespace nvcuda::wmma {

class matrix_a;
class matrix_b;
class accumulator;
class row_major;
enum layout_t : uint8_t { mem_row_major, mem_col_major };

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment;
template <class T>
struct fragment<matrix_a, 16, 16, 16, T, row_major> {
  T of_row[16];
};
template <class T>
struct fragment<matrix_b, 16, 16, 16, T, row_major> {
  T of_rows[16][8];
};
template <>
struct fragment<accumulator, 16, 16, 16, float> {
  float of_row[8];
};

namespace detail {

inline int row() { return weft::emulation::lane() / 2; }
inline int first_column() { return weft::emulation::lane() % 2 * 8; }

/// All lanes have come to the same call. It orders none of their accesses to memory.
inline void meet(const weft::emulation::Where& where) { weft::emulation::warp_vote(~0u, true, where); }

template <class T>
void check(const T* at, unsigned stride) {
  if (reinterpret_cast<uintptr_t>(at) % 32 != 0 || stride * sizeof(T) % 16 != 0)
    weft::emulation::fail("a matrix of a warp at %p with rows of %u elements: no multiples of 32 and 16 bytes",
                          static_cast<const void*>(at), stride);
}

}  // namespace detail

inline void fill_fragment(fragment<accumulator, 16, 16, 16, float>& sums, float value) {
  for (float& sum : sums.of_row) sum = value;
}

template <class T>
void load_matrix_sync(fragment<matrix_a, 16, 16, 16, T, row_major>& a, const T* from, unsigned stride,
                      weft::emulation::Where where = weft::emulation::Where::current()) {
  detail::check(from, stride);
  detail::meet(where);
  for (int k = 0; k < 16; ++k) a.of_row[k] = from[detail::row() * int(stride) + k];
}
template <class T>
void load_matrix_sync(fragment<matrix_b, 16, 16, 16, T, row_major>& b, const T* from, unsigned stride,
                      weft::emulation::Where where = weft::emulation::Where::current()) {
  detail::check(from, stride);
  detail::meet(where);
  for (int k = 0; k < 16; ++k)
    for (int n = 0; n < 8; ++n) b.of_rows[k][n] = from[k * int(stride) + detail::first_column() + n];
}

template <class T>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& d, const fragment<matrix_a, 16, 16, 16, T, row_major>& a,
              const fragment<matrix_b, 16, 16, 16, T, row_major>& b, const fragment<accumulator, 16, 16, 16, float>& c,
              weft::emulation::Where where = weft::emulation::Where::current()) {
  detail::meet(where);
  for (int n = 0; n < 8; ++n) {
    float sum = c.of_row[n];
    for (int k = 0; k < 16; ++k) sum += float(a.of_row[k]) * float(b.of_rows[k][n]);
    d.of_row[n] = sum;
  }
}

inline void store_matrix_sync(float* to, const fragment<accumulator, 16, 16, 16, float>& sums, unsigned stride,
                              layout_t layout, weft::emulation::Where where = weft::emulation::Where::current()) {
  detail::check(to, stride);
  if (layout != mem_row_major) weft::emulation::fail("store_matrix_sync: only rows are emulated");
  detail::meet(where);
  for (int n = 0; n < 8; ++n) to[detail::row() * int(stride) + detail::first_column() + n] = sums.of_row[n];
}

}  // namespace nvcuda::wmma

// Products on a device by tensor cores (CUDA's warp matrix functions): the tile for 16-bit floats, added up in float.
#pragma once
#include <mma.h>

#include "weft/device.h"

namespace weft {

// Matrices of 16 x 16. All lanes of a warp call their functions together. The mapping of elements to lanes is
// unspecified.

namespace tensor {

using nvcuda::wmma::fill_fragment;
using nvcuda::wmma::mem_row_major;
using nvcuda::wmma::mma_sync;
using nvcuda::wmma::store_matrix_sync;

inline constexpr int kFragment = 16;

namespace detail {
/// The toolkit's type with the same bits.
template <class T>
using Native = std::conditional_t<std::is_same_v<T, half>, __half, __nv_bfloat16>;

template <class Use, class... Rest>
using Fragment = nvcuda::wmma::fragment<Use, kFragment, kFragment, kFragment, Rest...>;
}  // namespace detail

/// Operands lie row by row.
template <class T>
using Rows = detail::Fragment<nvcuda::wmma::matrix_a, detail::Native<T>, nvcuda::wmma::row_major>;
template <class T>
using Columns = detail::Fragment<nvcuda::wmma::matrix_b, detail::Native<T>, nvcuda::wmma::row_major>;
using Sums = detail::Fragment<nvcuda::wmma::accumulator, float>;

/// Loads from an address that is a multiple of 32 bytes. Rows are `stride` elements apart, a multiple of 8.
template <class Fragment, class T>
WEFT_DEVICE void load(Fragment& fragment, const T* from, int stride) {
  nvcuda::wmma::load_matrix_sync(fragment, reinterpret_cast<const detail::Native<T>*>(from), unsigned(stride));
}

}  // namespace tensor

namespace detail {
template <class Tile, class T>
class WarpSums;
}

/// The tile that a block computes at once: M rows by N columns, WarpM x WarpN for each warp. T: the operands' type.
template <class T, int M, int N, int WarpM, int WarpN>
struct TensorTile {
  static constexpr int kM = M, kN = N, kWarpM = WarpM, kWarpN = WarpN;
  static constexpr int kK = 32;
  static constexpr int kWarpColumns = N / WarpN, kThreads = M / WarpM * kWarpColumns * 32;
  template <class Sum>
  using Sums = detail::WarpSums<TensorTile, T>;
};

namespace detail {

/// The sums of a block's tile, by warp, as ThreadSums has them by thread. The mapping of sums to threads is
/// unspecified, so `each` copies them through the operands' shared memory.
template <class Tile, class T>
class WarpSums {
 public:
  // Padded against bank conflicts; fragments begin at multiples of 32 bytes.
  static constexpr int kRowStride = Tile::kK + 8, kRowElements = Tile::kM * kRowStride;
  static constexpr int kColumnStride = Tile::kN + 8, kColumnElements = Tile::kK * kColumnStride;
  static constexpr int kBytes = 2 * (kRowElements + kColumnElements) * int(sizeof(T));

  WEFT_DEVICE explicit WarpSums(unsigned char* memory)
      : rows_(reinterpret_cast<T*>(memory)),
        columns_(rows_ + 2 * kRowElements),
        scratch_(reinterpret_cast<float*>(memory) + int(threadIdx.x) / 32 * kFragment * kFragment) {}

  WEFT_DEVICE void clear() {
    WEFT_UNROLL
    for (int e = 0; e < kM * kN; ++e) tensor::fill_fragment(sums_[e], 0.0f);
    __syncthreads();  // `each` of the tile before has read
  }
  WEFT_DEVICE void keep_row(int buffer, int m, int k, T value) {
    rows_[buffer * kRowElements + m * kRowStride + k] = value;
  }
  WEFT_DEVICE void keep_column(int buffer, int k, int n, T value) {
    columns_[buffer * kColumnElements + k * kColumnStride + n] = value;
  }

  WEFT_DEVICE void add(int buffer) {
    const T* rows = rows_ + buffer * kRowElements + first_row() * kRowStride;
    const T* columns = columns_ + buffer * kColumnElements + first_column();
    WEFT_UNROLL
    for (int k = 0; k < Tile::kK; k += kFragment) {
      tensor::Rows<T> a[kM];
      tensor::Columns<T> b[kN];
      WEFT_UNROLL
      for (int i = 0; i < kM; ++i) tensor::load(a[i], rows + i * kFragment * kRowStride + k, kRowStride);
      WEFT_UNROLL
      for (int j = 0; j < kN; ++j) tensor::load(b[j], columns + k * kColumnStride + j * kFragment, kColumnStride);
      WEFT_UNROLL
      for (int e = 0; e < kM * kN; ++e) tensor::mma_sync(sums_[e], a[e / kN], b[e % kN], sums_[e]);
    }
  }

  /// No parts: one instruction adds 16 products of 16-bit operands, so that one float keeps the digits of the result.
  struct Parts {
    static WEFT_DEVICE int terms(int) { return 0; }  // none ends
    WEFT_DEVICE void take(WarpSums&) {}
    WEFT_DEVICE void finish(WarpSums&) {}
  };

  template <class F>
  WEFT_DEVICE void each(F&& f) {
    WEFT_UNROLL
    for (int e = 0; e < kM * kN; ++e) {
      tensor::store_matrix_sync(scratch_, sums_[e], kFragment, tensor::mem_row_major);
      __syncwarp();
      const int row = first_row() + e / kN * kFragment, column = first_column() + e % kN * kFragment;
      for (int i = lane(); i < kFragment * kFragment; i += 32)
        f(row + i / kFragment, column + i % kFragment, scratch_[i]);
      __syncwarp();
    }
  }

 private:
  static constexpr int kFragment = tensor::kFragment;
  static constexpr int kM = Tile::kWarpM / kFragment, kN = Tile::kWarpN / kFragment;
  static_assert(Tile::kThreads / 32 * kFragment * kFragment * int(sizeof(float)) <= kBytes);

  WEFT_DEVICE static int first_row() { return int(threadIdx.x) / 32 / Tile::kWarpColumns * Tile::kWarpM; }
  WEFT_DEVICE static int first_column() { return int(threadIdx.x) / 32 % Tile::kWarpColumns * Tile::kWarpN; }

  T *const rows_, *const columns_;
  float* const scratch_;  // a fragment for each warp
  tensor::Sums sums_[kM * kN];
};

}  // namespace detail

}  // namespace weft

// Convolutions on a device as products: filters x (channels, taps) times (channels, taps) x outputs. The columns of the
// second operand are never stored: they are gathered from the input while they are brought into shared memory.
#pragma once
#include "weft/device.h"
#include "weft/sliding_window.h"

// Arrays of a thread stay in registers only where every loop over them is unrolled.
#if defined(__CUDACC__)
#define WEFT_UNROLL _Pragma("unroll")
#else
#define WEFT_UNROLL
#endif

namespace weft {

/// Groups of `filters` filters over `channels` channels each. Channels, filters and outputs of one image of one group
/// are counted in 32 bits.
struct Convolution {
  int64_t batch, groups, channels, filters;
};

/// What a block computes at once: M filters for N outputs, of which a thread has ThreadM x ThreadN.
template <int M, int N, int ThreadM, int ThreadN>
struct ConvolutionTile {
  static constexpr int kM = M, kN = N, kThreadM = ThreadM, kThreadN = ThreadN;
  static constexpr int kK = 16;  // products between two barriers
  static constexpr int kColumns = N / ThreadN, kThreads = M / ThreadM * kColumns;
};

namespace detail {

/// A block at work on one tile. Two buffers in shared memory: one is read while the next products come in.
template <class Tile, class Sum, class T>
class ConvolvingBlock {
 public:
  WEFT_DEVICE ConvolvingBlock(const SlidingWindow& window, const Convolution& c, const T* x, const T* w)
      : window_(window),
        c_(c),
        x_(x),
        w_(w),
        depth_(int(c.channels * window.tap_count())),
        filters_(shared<Sum, 2 * kFilterElements, -3>()),
        columns_(shared<Sum, 2 * kColumnElements, -4>()) {}

  /// The sums of filters first_filter .. of a group and of columns first_column .. (all outputs of all images).
  WEFT_DEVICE void sum(int64_t group, int first_filter, int64_t first_column) {
    start(group, first_filter, first_column);
    fetch(0);
    keep(0);
    __syncthreads();
    for (int k = 0; k < depth_; k += Tile::kK) {
      const int now = k / Tile::kK % 2;
      const bool goes_on = k + Tile::kK < depth_;
      if (goes_on) fetch(k + Tile::kK);
      multiply(now);
      if (goes_on) keep(1 - now);
      __syncthreads();
    }
  }

  /// Calls f(filter of the tile, column of the tile, sum) for this thread's share.
  template <class F>
  WEFT_DEVICE void each(F&& f) const {
    const int row = int(threadIdx.x) / Tile::kColumns * Tile::kThreadM, column = int(threadIdx.x) % Tile::kColumns;
    WEFT_UNROLL
    for (int e = 0; e < kSums; ++e) f(row + e / Tile::kThreadN, column + e % Tile::kThreadN * Tile::kColumns, sums_[e]);
  }

 private:
  // Rows of filters are padded, against bank conflicts while they are stored by columns.
  static constexpr int kFilterStride = Tile::kM + 4, kFilterElements = Tile::kK * kFilterStride;
  static constexpr int kColumnElements = Tile::kK * Tile::kN, kSums = Tile::kThreadM * Tile::kThreadN;
  static constexpr int kFilterLoads = Tile::kM * Tile::kK / Tile::kThreads;
  static constexpr int kColumnLoads = Tile::kN * Tile::kK / Tile::kThreads, kColumnStep = Tile::kThreads / Tile::kN;
  static_assert(Tile::kThreads % Tile::kN == 0 && Tile::kThreads % Tile::kK == 0 && Tile::kThreadM % 4 == 0);

  /// Where the thread's own column reads: the plane of channel 0, and the input position of tap 0.
  WEFT_DEVICE void start(int64_t group, int first_filter, int64_t first_column) {
    first_filter_ = first_filter;
    filter_rows_ = w_ + (group * c_.filters + first_filter) * depth_;
    const int64_t column = first_column + int(threadIdx.x) % Tile::kN, outputs = window_.out_count();
    const bool is_there = column < c_.batch * outputs;
    const int64_t image = is_there ? column / outputs : 0;
    const int output = int(column % outputs), width = int(window_.out[2]), height = int(window_.out[1]);
    plane_ = x_ + (image * c_.groups + group) * c_.channels * window_.in_count();
    from_[0] = is_there ? int(window_.at(0, output / (width * height), 0)) : kFarOutside;
    from_[1] = int(window_.at(1, output / width % height, 0));
    from_[2] = int(window_.at(2, output % width, 0));
    WEFT_UNROLL
    for (int e = 0; e < kSums; ++e) sums_[e] = 0;
  }

  /// x at channel and tap k of the thread's column; zero in the padding.
  WEFT_DEVICE T gathered(int k) const {
    const int tap_count = int(window_.tap_count()), taps1 = int(window_.taps[1]), taps2 = int(window_.taps[2]);
    const int channel = k / tap_count, tap = k % tap_count;
    const int z = from_[0] + tap / (taps1 * taps2) * int(window_.dilation[0]);
    const int y = from_[1] + tap / taps2 % taps1 * int(window_.dilation[1]);
    const int x = from_[2] + tap % taps2 * int(window_.dilation[2]);
    const int depth = int(window_.in[0]), height = int(window_.in[1]), width = int(window_.in[2]);
    const bool is_inside =
        k < depth_ && unsigned(z) < unsigned(depth) && unsigned(y) < unsigned(height) && unsigned(x) < unsigned(width);
    return is_inside ? plane_[((channel * depth + z) * height + y) * width + x] : T(0.0f);
  }

  WEFT_DEVICE void fetch(int k) {
    const int filter_k = k + int(threadIdx.x) % Tile::kK, filter = int(threadIdx.x) / Tile::kK;
    WEFT_UNROLL
    for (int i = 0; i < kFilterLoads; ++i) {
      const int m = filter + i * (Tile::kThreads / Tile::kK);
      const bool is_there = filter_k < depth_ && first_filter_ + m < int(c_.filters);
      next_filters_[i] = is_there ? filter_rows_[m * depth_ + filter_k] : T(0.0f);
    }
    WEFT_UNROLL
    for (int i = 0; i < kColumnLoads; ++i)
      next_columns_[i] = gathered(k + int(threadIdx.x) / Tile::kN + i * kColumnStep);
  }

  WEFT_DEVICE void keep(int buffer) {
    Sum* const filters = filters_ + buffer * kFilterElements + int(threadIdx.x) % Tile::kK * kFilterStride;
    WEFT_UNROLL
    for (int i = 0; i < kFilterLoads; ++i)
      filters[int(threadIdx.x) / Tile::kK + i * (Tile::kThreads / Tile::kK)] = Sum(next_filters_[i]);
    Sum* const columns = columns_ + buffer * kColumnElements + int(threadIdx.x);
    WEFT_UNROLL
    for (int i = 0; i < kColumnLoads; ++i) columns[i * Tile::kThreads] = Sum(next_columns_[i]);
  }

  WEFT_DEVICE void multiply(int buffer) {
    constexpr int kWidth = 16 / int(sizeof(Sum));
    const Sum* filters = filters_ + buffer * kFilterElements + int(threadIdx.x) / Tile::kColumns * Tile::kThreadM;
    const Sum* columns = columns_ + buffer * kColumnElements + int(threadIdx.x) % Tile::kColumns;
    WEFT_UNROLL
    for (int k = 0; k < Tile::kK; ++k) {
      alignas(16) Sum a[Tile::kThreadM];
      Sum b[Tile::kThreadN];
      WEFT_UNROLL
      for (int i = 0; i < Tile::kThreadM; i += kWidth) store(a + i, load<kWidth>(filters + k * kFilterStride + i));
      WEFT_UNROLL
      for (int j = 0; j < Tile::kThreadN; ++j) b[j] = columns[k * Tile::kN + j * Tile::kColumns];
      WEFT_UNROLL
      for (int e = 0; e < kSums; ++e) sums_[e] += a[e / Tile::kThreadN] * b[e % Tile::kThreadN];
    }
  }

  static constexpr int kFarOutside = -(1 << 30);

  const SlidingWindow window_;
  const Convolution c_;
  const T *const x_, *const w_;
  const int depth_;
  Sum *const filters_, *const columns_;
  int first_filter_ = 0;
  const T *filter_rows_ = nullptr, *plane_ = nullptr;
  int from_[3] = {};
  T next_filters_[kFilterLoads], next_columns_[kColumnLoads];
  Sum sums_[kSums];  // by filter and column
};

}  // namespace detail

/// y[image][filter][output] by put(image, filter, output, sum), for each of them once: x[image][channel][input] and
/// w[filter][channel][tap] row by row. Sums are of type Sum, for 16-bit floats float. Blocks have Tile::kThreads
/// threads and take tiles in turn.
template <class Tile, class Sum, class T, class Put>
WEFT_DEVICE void convolve(const SlidingWindow& window, const Convolution& c, const T* x, const T* w, Put&& put) {
  const int64_t outputs = window.out_count(), columns = c.batch * outputs;
  const int64_t row_tiles = (c.filters + Tile::kM - 1) / Tile::kM, column_tiles = (columns + Tile::kN - 1) / Tile::kN;
  detail::ConvolvingBlock<Tile, Sum, T> block(window, c, x, w);
  for (int64_t tile = blockIdx.x; tile < c.groups * row_tiles * column_tiles; tile += gridDim.x) {
    const int64_t group = tile / (row_tiles * column_tiles), first_column = tile / row_tiles % column_tiles * Tile::kN;
    const int first_filter = int(tile % row_tiles) * Tile::kM;
    block.sum(group, first_filter, first_column);
    block.each([&](int row, int column, Sum sum) {
      const int64_t filter = first_filter + row, at = first_column + column;
      if (filter < c.filters && at < columns) put(at / outputs, group * c.filters + filter, at % outputs, sum);
    });
  }
}

}  // namespace weft

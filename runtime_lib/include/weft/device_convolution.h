// Convolutions on a device as products: filters x (channels, taps) times (channels, taps) x outputs. The columns of the
// second operand are never stored: they are gathered from the input while they are loaded into shared memory.
#pragma once
#include "weft/device_product.h"
#include "weft/sliding_window.h"

namespace weft {

namespace detail {

/// Filters of one group from `first` on. An element is one tap of one channel.
template <class T>
class FilterRows {
 public:
  WEFT_DEVICE FilterRows(const Convolution& c, int depth, const T* w)
      : filters_(int(c.filters)), depth_(depth), w_(w) {}

  WEFT_DEVICE void start(int64_t group, int first) {
    first_ = first;
    from_ = w_ + (group * filters_ + first) * depth_;
  }
  WEFT_DEVICE T at(int m, int k) const { return k < depth_ && first_ + m < filters_ ? from_[m * depth_ + k] : T(0.0f); }

 private:
  const int filters_, depth_;
  const T* const w_;
  const T* from_ = nullptr;
  int first_ = 0;
};

/// The input elements that one output of one image reads.
template <class T>
class GatheredColumn {
 public:
  WEFT_DEVICE GatheredColumn(const SlidingWindow& window, const Convolution& c, int depth, const T* x)
      : window_(window), c_(c), depth_(depth), x_(x) {}

  /// Finds the plane of channel 0 and the input position of tap 0.
  WEFT_DEVICE void start(int64_t group, int64_t column) {
    const int64_t outputs = window_.out_count();
    const bool is_there = column < c_.batch * outputs;
    const int64_t image = is_there ? column / outputs : 0;
    const int output = int(column % outputs), width = int(window_.out[2]), height = int(window_.out[1]);
    plane_ = x_ + (image * c_.groups + group) * c_.channels * window_.in_count();
    from_[0] = is_there ? int(window_.at(0, output / (width * height), 0)) : kFarOutside;
    from_[1] = int(window_.at(1, output / width % height, 0));
    from_[2] = int(window_.at(2, output % width, 0));
  }

  /// x at channel and tap k; zero in the padding.
  WEFT_DEVICE T at(int k) const {
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

 private:
  static constexpr int kFarOutside = -(1 << 30);

  const SlidingWindow window_;
  const Convolution c_;
  const int depth_;
  const T* const x_;
  const T* plane_ = nullptr;
  int from_[3] = {};
};

}  // namespace detail

/// Calls put(image, filter, output, sum) once for each element of y[image][filter][output]. x[image][channel][input]
/// and w[filter][channel][tap] are row-major. Sums have type Sum: float for 16-bit floats. Blocks have Tile::kThreads
/// threads and take tiles in turn. Channels, filters and outputs of one group of an image are counted in 32 bits.
template <class Tile, class Sum, class T, class Put>
WEFT_DEVICE void convolve(const SlidingWindow& window, const Convolution& c, const T* x, const T* w, Put&& put) {
  const int64_t outputs = window.out_count(), columns = c.batch * outputs;
  const int64_t row_tiles = (c.filters + Tile::kM - 1) / Tile::kM, column_tiles = (columns + Tile::kN - 1) / Tile::kN;
  const int depth = int(c.channels * window.tap_count());
  detail::FilterRows<T> filters(c, depth, w);
  detail::GatheredColumn<T> gathered(window, c, depth, x);
  detail::ProductBlock<Tile, Sum, decltype(filters), decltype(gathered)> block(depth, filters, gathered);
  for (int64_t tile = blockIdx.x; tile < c.groups * row_tiles * column_tiles; tile += gridDim.x) {
    const int64_t group = tile / (row_tiles * column_tiles), first_column = tile / row_tiles % column_tiles * Tile::kN;
    const int first_filter = int(tile % row_tiles) * Tile::kM;
    filters.start(group, first_filter);
    gathered.start(group, first_column + block.own_column());
    block.sum();
    block.each([&](int row, int column, Sum sum) {
      const int64_t filter = first_filter + row, at = first_column + column;
      if (filter < c.filters && at < columns) put(at / outputs, group * c.filters + filter, at % outputs, sum);
    });
  }
}

}  // namespace weft

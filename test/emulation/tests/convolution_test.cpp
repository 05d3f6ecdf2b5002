// weft/device_convolution.h over the emulation: every tile, any grid, ragged edges.
#include <doctest/doctest.h>

#include "device.h"
#include "tiles.h"

using weft::Convolution;
using weft::SlidingWindow;

namespace {

struct Shape {
  SlidingWindow window;
  Convolution convolution;
};

/// As many outputs as the padded input has room for.
Shape shape(Convolution c, SlidingWindow w) {
  for (int d = 0; d < 3; ++d)
    w.out[d] = (w.in[d] + 2 * w.pad[d] - w.dilation[d] * (w.taps[d] - 1) - 1) / w.stride[d] + 1;
  return {w, c};
}

const Shape kShapes[] = {
    shape({2, 1, 3, 5}, {{1, 1, 37}, {}, {1, 1, 5}, {1, 1, 2}, {1, 1, 2}, {0, 0, 3}}),
    shape({3, 3, 2, 7}, {{1, 9, 11}, {}, {1, 3, 2}, {1, 2, 1}, {1, 1, 2}, {0, 1, 2}}),
    shape({1, 2, 4, 3}, {{4, 5, 6}, {}, {2, 3, 2}, {1, 2, 1}, {2, 1, 1}, {1, 1, 0}}),
    shape({2, 1, 20, 140}, {{1, 8, 9}, {}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}}),
    shape({1, 1, 16, 64}, {{1, 8, 8}, {}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}}),
};

template <class Tile, class Sum, class T>
__global__ void convolve(SlidingWindow window, Convolution c, const T* x, const T* w, Sum* y, int* puts) {
  weft::convolve<Tile, Sum>(window, c, x, w, [&](int64_t image, int64_t filter, int64_t output, Sum sum) {
    const int64_t at = (image * c.groups * c.filters + filter) * window.out_count() + output;
    y[at] = sum;
    atomicAdd(puts + at, 1);
  });
}

/// By its definition, in double.
template <class T>
double convolved(const Shape& s, const std::vector<T>& x, const std::vector<T>& w, int64_t at) {
  const auto& [window, c] = s;
  const int64_t output = at % window.out_count(), filter = at / window.out_count() % (c.groups * c.filters);
  const int64_t image = at / window.out_count() / (c.groups * c.filters), group = filter / c.filters;
  const int64_t o[] = {output / (window.out[1] * window.out[2]), output / window.out[2] % window.out[1],
                       output % window.out[2]};
  double sum = 0;
  for (int64_t k = 0; k < c.channels * window.tap_count(); ++k) {
    const int64_t channel = k / window.tap_count(), tap = k % window.tap_count();
    const int64_t taps[] = {tap / (window.taps[1] * window.taps[2]), tap / window.taps[2] % window.taps[1],
                            tap % window.taps[2]};
    int64_t from = (image * c.groups + group) * c.channels + channel;
    bool is_inside = true;
    for (int d = 0; d < 3; ++d) {
      const int64_t place = window.at(d, o[d], taps[d]);
      is_inside &= place >= 0 && place < window.in[d];
      from = from * window.in[d] + place;
    }
    if (is_inside)
      sum += double(float(x[size_t(from)])) * double(float(w[size_t(filter * c.channels * window.tap_count() + k)]));
  }
  return sum;
}

template <class Tile, class Sum, class T>
void check(const Shape& s, unsigned blocks) {
  const auto& [window, c] = s;
  const std::vector<T> x = values<T>(c.batch * c.groups * c.channels * window.in_count());
  const std::vector<T> w = values<T>(c.groups * c.filters * c.channels * window.tap_count());
  const size_t count = size_t(c.batch * c.groups * c.filters * window.out_count());
  const Buffer<T> x_at(x), w_at(w);
  const Buffer<Sum> y_at(count);
  const Buffer<int> puts_at(std::vector<int>(count, 0));
  const Stream stream;
  run(stream.handle, convolve<Tile, Sum, T>, blocks, Tile::kThreads, window, c, x_at.at, w_at.at, y_at.at, puts_at.at);
  stream.wait();
  const std::vector<Sum> y = y_at.read();
  int wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += !(std::abs(y[i] - convolved(s, x, w, int64_t(i))) < 1e-4);
  CHECK(wrong == 0);
  CHECK(puts_at.read() == std::vector<int>(count, 1));
}

template <class Tiles>
void check_tiles(Tiles) {
  for (const Shape& s : kShapes) {
    INFO("filters " << s.convolution.filters << ", tile " << Tiles::kM << " x " << Tiles::kN);
    for (unsigned blocks : {1u, 3u, 40u}) check<typename Tiles::Threads, float, float>(s, blocks);
    check<typename Tiles::template Warps<weft::half>, float, weft::half>(s, 5);
    check<typename Tiles::template Warps<weft::bfloat16>, float, weft::bfloat16>(s, 5);
    if constexpr (Tiles::kM < 128) check<typename Tiles::Threads, double, double>(s, 5);
  }
}

}  // namespace

TEST_CASE("device convolutions: every tile against the definition") {
  for_each_tiles([](auto tiles) { check_tiles(tiles); });
}

// Convolutions by their definition in double, and random operands for them.
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "../larger.h"
#include "weft/sliding_window.h"

namespace windows {

using weft::Convolution, weft::SlidingWindow;
using Numbers = std::mt19937;

inline int64_t pick(Numbers& numbers, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(numbers);
}

template <class T>
std::vector<T> draw(Numbers& numbers, int64_t count) {
  std::vector<T> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(std::uniform_real_distribution<T>(-1, 1)(numbers));
  return out;
}

/// Calls f(tap, input position) for the taps of an output that lie inside.
template <class F>
void each_tap(const SlidingWindow& w, int64_t output, F&& f) {
  for (int64_t tap = 0; tap < w.tap_count(); ++tap) {
    const int64_t z = w.at(0, output / (w.out[1] * w.out[2]), tap / (w.taps[1] * w.taps[2]));
    const int64_t y = w.at(1, output / w.out[2] % w.out[1], tap / w.taps[2] % w.taps[1]);
    const int64_t x = w.at(2, output % w.out[2], tap % w.taps[2]);
    if (z < 0 || z >= w.in[0] || y < 0 || y >= w.in[1] || x < 0 || x >= w.in[2]) continue;
    f(tap, (z * w.in[1] + y) * w.in[2] + x);
  }
}

template <class T>
std::vector<double> plain_convolution(const SlidingWindow& w, const Convolution& c, const std::vector<T>& x,
                                      const std::vector<T>& filters) {
  std::vector<double> y;
  for (int64_t m = 0; m < c.batch * w.out_count(); ++m)
    for (int64_t n = 0; n < c.groups * c.filters; ++n) {
      double sum = 0;
      each_tap(w, m % w.out_count(), [&](int64_t tap, int64_t at) {
        const int64_t pixel = m / w.out_count() * w.in_count() + at;
        for (int64_t channel = 0; channel < c.channels; ++channel)
          sum += double(x[size_t((pixel * c.groups + n / c.filters) * c.channels + channel)]) *
                 double(filters[size_t((n * c.channels + channel) * w.tap_count() + tap)]);
      });
      y.push_back(sum);
    }
  return y;
}

template <class T>
double largest_error(const std::vector<T>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  double error = 0;
  for (size_t i = 0; i < got.size(); ++i) error = larger(error, std::fabs(want[i] - double(got[i])));
  return error;
}

/// Up to three dimensions that have an output each; rows are long enough for whole tiles.
inline SlidingWindow random_window(Numbers& numbers) {
  SlidingWindow w{};
  const int64_t unused = pick(numbers, 0, 2);
  for (int d = 0; d < 3; ++d) {
    w.in[d] = w.out[d] = w.taps[d] = w.stride[d] = w.dilation[d] = 1;
    if (d < unused) continue;
    w.taps[d] = pick(numbers, 1, 4), w.stride[d] = pick(numbers, 1, 3), w.dilation[d] = pick(numbers, 1, 2);
    w.pad[d] = pick(numbers, 0, 3);
    const int64_t reach = (w.taps[d] - 1) * w.dilation[d] + 1, after = pick(numbers, 0, 3);
    w.in[d] = pick(numbers, std::max<int64_t>(1, reach - w.pad[d] - after), d == 2 ? 25 : 7);
    w.in[d] = std::max(w.in[d], std::max<int64_t>(1, reach - w.pad[d] - after));
    w.out[d] = (w.in[d] + w.pad[d] + after - reach) / w.stride[d] + 1;
  }
  return w;
}

}  // namespace windows

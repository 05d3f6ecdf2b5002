// Windows over images with their channels innermost, each channel on its own, against plain loops in double over random
// shapes.
#include "weft/channels_last.h"

#include <doctest/doctest.h>

#include <vector>

#include "../effort.h"
#include "plain_convolution.h"

using namespace weft;
using namespace windows;

namespace {

/// A random window whose rows of taps are those of kRow, over a row that may be shorter than a tile, or have several.
template <TapRow kRow>
SlidingWindow window_of_row(Numbers& numbers) {
  SlidingWindow w = random_window(numbers);
  w.taps[2] = kRow.taps, w.stride[2] = kRow.stride, w.dilation[2] = kRow.dilation;
  const int64_t reach = (kRow.taps - 1) * kRow.dilation + 1, after = pick(numbers, 0, reach);
  w.pad[2] = pick(numbers, -1, reach);
  w.in[2] = std::max<int64_t>(1, reach - w.pad[2] - after) + pick(numbers, 0, 30);
  w.out[2] = (w.in[2] + w.pad[2] + after - reach) / kRow.stride + 1;
  return w;
}

template <class T, TapRow kRow>
void check_row(Numbers& numbers, double bound) {
  Team team(2);
  for (int i = 0; i < random_cases(12); ++i) {
    CAPTURE(i);
    const SlidingWindow w = window_of_row<kRow>(numbers);
    const int64_t batch = pick(numbers, 1, 2);
    const auto x = draw<T>(numbers, batch * w.in_count() * kRow.channels);
    const auto filters = draw<T>(numbers, kRow.channels * w.tap_count());
    std::vector<T> packed(filters.size());
    pack_channel_filters(w, kRow.channels, filters.data(), packed.data());
    // Sums are added to zeros: one that is put twice, or never, shows.
    std::vector<T> y(size_t(batch * w.out_count() * kRow.channels));
    convolve_channels<kRow, T>(team, w, batch, x.data(), packed.data(),
                               [&](int64_t m, int64_t n0, auto width, const T* sums) {
                                 for (int64_t j = 0; j < width; ++j) y[size_t(m * kRow.channels + n0 + j)] += sums[j];
                               });
    REQUIRE(largest_error(y, plain_convolution(w, {batch, kRow.channels, 1, 1}, x, filters)) < bound);
  }
}

}  // namespace

TEST_CASE("channels last: known rows of taps, at edges, in images shorter than a tile") {
  Numbers numbers(6);
  check_row<float, TapRow{.taps = 3, .stride = 1, .dilation = 1, .channels = 16}>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 3, .stride = 2, .dilation = 1, .channels = 41}>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 5, .stride = 1, .dilation = 2, .channels = 150}>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 7, .stride = 4, .dilation = 4, .channels = 31}>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 1, .stride = 3, .dilation = 1, .channels = 129}>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 2, .stride = 3, .dilation = 3, .channels = 128}>(numbers, 1e-5);
  check_row<double, TapRow{.taps = 3, .stride = 1, .dilation = 1, .channels = 35}>(numbers, 1e-13);
  check_row<double, TapRow{.taps = 4, .stride = 2, .dilation = 1, .channels = 48}>(numbers, 1e-13);
}

TEST_CASE("channels last: one filter a channel, random windows") {
  Team team(2);
  Numbers numbers(4);
  for (int i = 0; i < random_cases(150); ++i) {
    CAPTURE(i);
    const SlidingWindow w = random_window(numbers);
    const int64_t batch = pick(numbers, 1, 2), channels = pick(numbers, 1, i % 2 ? 15 : 150);
    const auto x = draw<float>(numbers, batch * w.in_count() * channels);
    const auto filters = draw<float>(numbers, channels * w.tap_count());
    std::vector<float> packed(filters.size()), y(size_t(batch * w.out_count() * channels));
    pack_channel_filters(w, channels, filters.data(), packed.data());
    convolve_channels(team, w, batch, channels, x.data(), packed.data(),
                      [&](int64_t m, int64_t n0, auto width, const float* sums) {
                        for (int64_t j = 0; j < width; ++j) y[size_t(m * channels + n0 + j)] += sums[j];
                      });
    CHECK(largest_error(y, plain_convolution(w, {batch, channels, 1, 1}, x, filters)) < 1e-5);
  }
}

/// The largest of each window, and how many taps lie inside of it; `least` where there are none.
template <class T>
static void check_pool(Team& team, const SlidingWindow& w, int64_t batch, int64_t channels, const std::vector<T>& x,
                       T least) {
  std::vector<T> largest(size_t(batch * w.out_count() * channels));
  std::vector<int64_t> taps(largest.size());
  pool_channels(
      team, w, batch, channels, x.data(), least, [](auto a, auto b) { return a > b ? a : b; },
      [&](int64_t m, int64_t n0, auto width, const T* results, int64_t inside) {
        for (int64_t j = 0; j < width; ++j) {
          largest[size_t(m * channels + n0 + j)] = results[j];
          taps[size_t(m * channels + n0 + j)] += inside;
        }
      });
  for (int64_t at = 0; at < batch * w.out_count() * channels; ++at) {
    T want = least;
    int64_t inside = 0;
    each_tap(w, at / channels % w.out_count(), [&](int64_t, int64_t position) {
      const int64_t pixel = at / channels / w.out_count() * w.in_count() + position;
      want = std::max(want, x[size_t(pixel * channels + at % channels)]);
      ++inside;
    });
    REQUIRE(largest[size_t(at)] == want);
    REQUIRE(taps[size_t(at)] == inside);
  }
}

TEST_CASE("channels last: pools know how many taps lie inside") {
  Team team(2);
  Numbers numbers(5);
  for (int i = 0; i < random_cases(100); ++i) {
    CAPTURE(i);
    const SlidingWindow w = random_window(numbers);
    const int64_t batch = pick(numbers, 1, 2), channels = pick(numbers, 1, i % 2 ? 15 : 150);
    const int64_t count = batch * w.in_count() * channels;
    check_pool<float>(team, w, batch, channels, draw<float>(numbers, count), -2);
    std::vector<int8_t> bytes(static_cast<size_t>(count));
    for (int8_t& byte : bytes) byte = int8_t(pick(numbers, 0, 255));
    check_pool<int8_t>(team, w, batch, channels, bytes, -128);
    check_pool<uint8_t>(team, w, batch, channels, {bytes.begin(), bytes.end()}, 0);
  }
}

// Windows over images with their channels innermost, each channel on its own, against plain loops in double over random
// shapes.
#include "weft/channels_last.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
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

template <class T, TapRow kRow, int64_t kChannels>
void check_row(Numbers& numbers, double bound) {
  Team team(2);
  for (int i = 0; i < random_cases(12); ++i) {
    CAPTURE(i);
    const SlidingWindow w = window_of_row<kRow>(numbers);
    const int64_t batch = pick(numbers, 1, 2);
    const auto x = draw<T>(numbers, batch * w.in_count() * kChannels);
    const auto filters = draw<T>(numbers, kChannels * w.tap_count());
    std::vector<T> packed(filters.size());
    pack_channel_filters(w, kChannels, filters.data(), packed.data());
    // Sums are added to zeros: one that is put twice, or never, shows.
    std::vector<T> y(size_t(batch * w.out_count() * kChannels));
    convolve_channels<kRow, kChannels, T>(team, w, batch, x.data(), packed.data(),
                                          [&](int64_t m, int64_t n0, auto width, const T* sums) {
                                            for (int64_t j = 0; j < width; ++j)
                                              y[size_t(m * kChannels + n0 + j)] += sums[j];
                                          });
    REQUIRE(largest_error(y, plain_convolution(w, {batch, kChannels, 1, 1}, x, filters)) < bound);
  }
}

}  // namespace

TEST_CASE("channels last: known rows of taps, at edges, in images shorter than a tile") {
  Numbers numbers(6);
  check_row<float, TapRow{.taps = 3, .stride = 1, .dilation = 1}, 72>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 3, .stride = 2, .dilation = 1}, 330>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 3, .stride = 1, .dilation = 2}, 24>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 5, .stride = 1, .dilation = 1}, 200>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 5, .stride = 2, .dilation = 1}, 40>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 7, .stride = 1, .dilation = 1}, 99>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 3, .stride = 1, .dilation = 1}, 16>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 3, .stride = 2, .dilation = 1}, 41>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 5, .stride = 1, .dilation = 2}, 150>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 7, .stride = 4, .dilation = 4}, 31>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 1, .stride = 3, .dilation = 1}, 129>(numbers, 1e-5);
  check_row<float, TapRow{.taps = 2, .stride = 3, .dilation = 3}, 128>(numbers, 1e-5);
  check_row<double, TapRow{.taps = 3, .stride = 1, .dilation = 1}, 35>(numbers, 1e-13);
  check_row<double, TapRow{.taps = 4, .stride = 2, .dilation = 1}, 48>(numbers, 1e-13);
}

/// The sums of a convolution of more rows than are taken together, in two images and three groups of channels.
static std::vector<float> tall_images(int threads, const std::vector<float>& x, const std::vector<float>& filters,
                                      const SlidingWindow& w) {
  constexpr int64_t kChannels = 330;
  Team team(threads);
  std::vector<float> y(size_t(2 * w.out_count() * kChannels));
  convolve_channels<TapRow{.taps = 3, .stride = 1, .dilation = 1}, kChannels, float>(
      team, w, 2, x.data(), filters.data(), [&](int64_t m, int64_t n0, auto width, const float* sums) {
        for (int64_t j = 0; j < width; ++j) y[size_t(m * kChannels + n0 + j)] += sums[j];
      });
  return y;
}

TEST_CASE("channels last: many rows have the same bits however many threads there are") {
  const SlidingWindow w{{1, 70, 9}, {1, 70, 9}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}};
  Numbers numbers(7);
  const auto x = draw<float>(numbers, 2 * w.in_count() * 330), filters = draw<float>(numbers, 9 * 330);
  std::vector<float> packed(filters.size());
  pack_channel_filters(w, 330, filters.data(), packed.data());
  const std::vector<float> alone = tall_images(1, x, packed, w);
  CHECK(largest_error(alone, plain_convolution(w, {2, 330, 1, 1}, x, filters)) < 1e-5);
  for (int threads : {2, 3}) CHECK(tall_images(threads, x, packed, w) == alone);
}

/// A caller may keep the rows of an image that it still needs in a ring, and name each one.
TEST_CASE("channels last: rows of outputs from rows of an image that lie in a ring") {
  constexpr int64_t kChannels = 40, kRing = 4;
  const SlidingWindow w{{1, 12, 17}, {1, 12, 17}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}};
  const int64_t length = w.in[2] * kChannels;
  Numbers numbers(8);
  const auto x = draw<float>(numbers, w.in_count() * kChannels), filters = draw<float>(numbers, 9 * kChannels);
  std::vector<float> packed(filters.size()), ring(size_t(kRing * length)), y(size_t(w.out_count() * kChannels));
  pack_channel_filters(w, kChannels, filters.data(), packed.data());
  const auto put = [&](int64_t m, int64_t n0, auto width, const float* sums) {
    for (int64_t j = 0; j < width; ++j) y[size_t(m * kChannels + n0 + j)] += sums[j];
  };
  const auto tiles = detail::row_tiles<TapRow{3, 1, 1}, float>();
  const detail::TiledConvolution<float> convolution{kChannels, packed.data(),
                                                    detail::register_put<kChannels, float>(put)};
  for (int64_t row = 0, known = 0; row < w.out[1]; ++row) {
    for (; known < std::min(row + 2, w.in[1]); ++known)
      std::copy_n(x.begin() + known * length, length, ring.begin() + known % kRing * length);
    std::vector<detail::TapPlace> places;
    for (int64_t tap = 0; tap < 3; ++tap)
      if (const int64_t at = w.at(1, row, tap); at >= 0 && at < w.in[1])
        places.push_back({at % kRing * length, tap * 3 * kChannels});
    const detail::ConvolvedRow<float> outputs{ring.data(), places.data(), places.data() + places.size(),
                                              row * w.out[2]};
    detail::convolve_rows(tiles, w, convolution, {&outputs, 1}, {0, kChannels});
  }
  CHECK(largest_error(y, plain_convolution(w, {1, kChannels, 1, 1}, x, filters)) < 1e-5);
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

/// The largest element of each window, and how many taps lie inside; `least` if none do.
template <class T>
static void check_pool(Team& team, const SlidingWindow& w, int64_t batch, int64_t channels, const std::vector<T>& x,
                       T least) {
  std::vector<T> largest(size_t(batch * w.out_count() * channels));
  std::vector<int64_t> taps(largest.size());
  pool_channels(team, w, batch, channels, x.data(), least, Largest{},
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

TEST_CASE("channels last: what is no number, and infinities, are found among few and many channels") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  Team team(2);
  const SlidingWindow w{{1, 5, 5}, {1, 3, 3}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
  for (const int64_t channels : {1, 3, 16, 50, 64, 129}) {
    CAPTURE(channels);
    std::vector<float> x(size_t(w.in_count() * channels), 1.0f), y(size_t(w.out_count() * channels));
    const auto at = [&](int64_t pixel, int64_t channel) -> float& { return x[size_t(pixel * channels + channel)]; };
    for (int64_t c = 0; c < channels; ++c) {
      if (c % 4 == 1) at(12, c) = nan;
      if (c % 4 == 2) at(12, c) = inf, at(7, c) = -inf;
      if (c % 4 == 3) at(11, c) = at(12, c) = 3e38f, at(13, c) = -inf;
    }
    pool_channels(team, w, 1, channels, x.data(), -inf, Largest{},
                  [&](int64_t m, int64_t n0, auto width, const float* results, int64_t) {
                    for (int64_t j = 0; j < width; ++j) y[size_t(m * channels + n0 + j)] = results[j];
                  });
    for (int64_t i = 0; i < w.out_count() * channels; ++i) {  // every window has the middle
      const float want[] = {1.0f, nan, inf, 3e38f}, found = y[size_t(i)];
      REQUIRE((i % channels % 4 == 1 ? std::isnan(found) : found == want[i % channels % 4]));
    }
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

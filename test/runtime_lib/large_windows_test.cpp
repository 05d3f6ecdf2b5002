// Windows about as large as the image, against plain loops in double over random shapes.
#include "weft/large_windows.h"

#include <doctest/doctest.h>

#include <vector>

#include "../effort.h"
#include "plain_convolution.h"
#include "weft/channels_last.h"

using namespace weft;
using namespace windows;

/// A random window with many taps along the rows and few outputs, at edges on both sides.
static SlidingWindow large_window(Numbers& numbers) {
  SlidingWindow w = random_window(numbers);
  w.taps[2] = pick(numbers, 8, 24), w.dilation[2] = pick(numbers, 1, 2);
  const int64_t reach = (w.taps[2] - 1) * w.dilation[2] + 1, after = pick(numbers, 0, 6);
  w.pad[2] = pick(numbers, -2, 6);
  w.in[2] = std::max<int64_t>(1, reach - w.pad[2] - after) + pick(numbers, 0, 20);
  w.out[2] = (w.in[2] + w.pad[2] + after - reach) / w.stride[2] + 1;
  return w;
}

template <class T>
static void check_windows(Numbers& numbers, double bound) {
  Team team(2);
  for (int i = 0; i < random_cases(60); ++i) {
    CAPTURE(i);
    const SlidingWindow w = large_window(numbers);
    const int64_t batch = pick(numbers, 1, 2), channels = pick(numbers, 16, 70);
    const auto x = draw<T>(numbers, batch * w.in_count() * channels);
    const auto filters = draw<T>(numbers, channels * w.tap_count());
    // Sums are added to zeros: one that is put twice, or never, shows.
    std::vector<T> packed(filters.size()), y(size_t(batch * w.out_count() * channels));
    pack_channel_filters(w, channels, filters.data(), packed.data());
    convolve_large_windows(team, w, batch, channels, x.data(), packed.data(),
                           [&](int64_t m, int64_t n0, int64_t width, const T* sums) {
                             for (int64_t j = 0; j < width; ++j) y[size_t(m * channels + n0 + j)] += sums[j];
                           });
    CHECK(largest_error(y, plain_convolution(w, {batch, channels, 1, 1}, x, filters)) < bound);
  }
}

TEST_CASE("large windows: one filter a channel, random windows") {
  Numbers numbers(11);
  check_windows<float>(numbers, 1e-5);
  check_windows<double>(numbers, 1e-13);
}

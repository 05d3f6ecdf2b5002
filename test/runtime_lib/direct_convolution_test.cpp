// Convolutions and pools over images with their channels innermost, against plain loops in double over random shapes.
#include "weft/direct_convolution.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "../effort.h"
#include "plain_convolution.h"

using namespace weft;
using namespace windows;

namespace {

/// The results of `convolve`, added to zeros, so that a result that is put twice shows. `x`: images as `convolve` takes
/// them.
template <class T, int64_t kFilters = 0, class X>
std::vector<T> convolved(Team& team, const SlidingWindow& w, const Convolution& c, const X& x,
                         const std::vector<T>& filters) {
  std::vector<T> packed(size_t(packed_filter_count(w, c)));
  pack_filters(w, c, filters.data(), packed.data());
  std::vector<T> y(size_t(c.batch * w.out_count() * c.groups * c.filters));
  std::vector<char> announced(y.size());
  convolve<T, kFilters>(
      team, w, c, x, packed.data(),
      [&](int64_t m, int64_t n0, auto width, const T* sums) {
        for (int64_t j = 0; j < width; ++j) {
          const size_t at = size_t(m * c.groups * c.filters + n0 + j);
          y[at] += announced[at] == 1 ? sums[j] : std::numeric_limits<T>::quiet_NaN();
        }
      },
      [&](int64_t m, int64_t n0, int64_t width) {
        for (int64_t j = 0; j < width; ++j) announced[size_t(m * c.groups * c.filters + n0 + j)] += 1;
      });
  return y;
}

template <class T>
void check_convolution(Team& team, const SlidingWindow& w, const Convolution& c, Numbers& numbers, double bound) {
  const std::vector<T> x = draw<T>(numbers, c.batch * w.in_count() * c.groups * c.channels);
  const std::vector<T> filters = draw<T>(numbers, c.groups * c.filters * c.channels * w.tap_count());
  CHECK(largest_error(convolved(team, w, c, x.data(), filters), plain_convolution(w, c, x, filters)) < bound);
}

/// The same with the number of filters known when this is compiled.
template <int64_t kFilters>
void check_known_filters(Team& team, const SlidingWindow& w, Convolution c, Numbers& numbers) {
  c.filters = kFilters;
  const auto x = draw<float>(numbers, c.batch * w.in_count() * c.groups * c.channels);
  const auto filters = draw<float>(numbers, c.groups * c.filters * c.channels * w.tap_count());
  REQUIRE(convolved<float, kFilters>(team, w, c, x.data(), filters) == convolved(team, w, c, x.data(), filters));
}

constexpr SlidingWindow kSquare = {{1, 9, 9}, {1, 9, 9}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}};

}  // namespace

TEST_CASE("direct convolution: random windows, groups and channels") {
  Team team(2);
  Numbers numbers(1);
  for (int i = 0; i < random_cases(150); ++i) {
    CAPTURE(i);
    const SlidingWindow window = random_window(numbers);
    const Convolution shape{pick(numbers, 1, 2), pick(numbers, 1, 3), pick(numbers, 1, 9), pick(numbers, 1, 50)};
    check_convolution<float>(team, window, shape, numbers, 1e-4);
  }
  check_convolution<double>(team, kSquare, {2, 2, 5, 33}, numbers, 1e-12);
}

TEST_CASE("direct convolution: half of a panel, and a known number of filters") {
  Team team(2);
  Numbers numbers(12);
  for (int i = 0; i < random_cases(40); ++i) {
    CAPTURE(i);
    const SlidingWindow window = random_window(numbers);
    const Convolution shape{pick(numbers, 1, 2), pick(numbers, 1, 2), pick(numbers, 1, 9), pick(numbers, 1, 8)};
    check_convolution<float>(team, window, shape, numbers, 1e-4);
    check_convolution<double>(team, window, shape, numbers, 1e-12);
    check_known_filters<1>(team, window, shape, numbers);
    check_known_filters<8>(team, window, shape, numbers);
    check_known_filters<9>(team, window, shape, numbers);
    check_known_filters<24>(team, window, shape, numbers);
    check_known_filters<32>(team, window, shape, numbers);
  }
}

TEST_CASE("direct convolution: groups of 8 channels and filters have the bits of each group alone") {
  Numbers numbers(15);
  for (int i = 0; i < random_cases(30); ++i) {
    CAPTURE(i);
    Team team(static_cast<int>(pick(numbers, 1, 3)));
    const SlidingWindow w = random_window(numbers);
    const Convolution shape{pick(numbers, 1, 3), pick(numbers, 2, 5), 8, 8}, single{shape.batch, 1, 8, 8};
    const int64_t channels = shape.groups * 8, points = shape.batch * w.in_count(), size = 64 * w.tap_count();
    const auto x = draw<float>(numbers, points * channels), filters = draw<float>(numbers, shape.groups * size);
    const auto all = convolved(team, w, shape, x.data(), filters);
    for (int64_t group = 0; group < shape.groups; ++group) {
      std::vector<float> image, own(filters.begin() + group * size, filters.begin() + (group + 1) * size), of_all;
      for (int64_t at = 0; at < points; ++at)
        image.insert(image.end(), x.begin() + at * channels + group * 8, x.begin() + at * channels + group * 8 + 8);
      for (int64_t m = 0; m < shape.batch * w.out_count(); ++m)
        of_all.insert(of_all.end(), all.begin() + m * channels + group * 8, all.begin() + m * channels + group * 8 + 8);
      CHECK(of_all == convolved(team, w, single, image.data(), own));
    }
  }
}

TEST_CASE("direct convolution: rows of taps that lie outside of the image") {
  Team team(2);
  Numbers numbers(14);
  for (int i = 0; i < random_cases(60); ++i) {
    CAPTURE(i);
    SlidingWindow w{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
    for (int d = 1; d < 3; ++d) {
      w.in[d] = pick(numbers, 3, 14), w.taps[d] = pick(numbers, 2, 4), w.dilation[d] = pick(numbers, 1, 12);
      w.stride[d] = pick(numbers, 1, 2), w.pad[d] = pick(numbers, 0, w.dilation[d] * w.taps[d]);
      const int64_t reach = (w.taps[d] - 1) * w.dilation[d] + 1;
      const int64_t after = std::max(reach - w.in[d] - w.pad[d], pick(numbers, 0, reach));
      w.out[d] = (w.in[d] + w.pad[d] + after - reach) / w.stride[d] + 1;
    }
    const Convolution shape{pick(numbers, 1, 2), pick(numbers, 1, 2), pick(numbers, 1, 9), pick(numbers, 1, 50)};
    check_convolution<float>(team, w, shape, numbers, 1e-4);
    check_convolution<double>(team, w, shape, numbers, 1e-12);
  }
}

TEST_CASE("direct convolution: images in planes") {
  Team team(3);
  Numbers numbers(13);
  for (int i = 0; i < random_cases(60); ++i) {
    CAPTURE(i);
    const SlidingWindow w = random_window(numbers);
    const Convolution c{pick(numbers, 1, 3), pick(numbers, 1, 2), pick(numbers, 1, 4), pick(numbers, 1, 20)};
    const int64_t channels = c.groups * c.channels, points = w.in_count();
    const auto planes = draw<float>(numbers, c.batch * points * channels);
    std::vector<float> x(planes.size());
    for (int64_t at = 0; at < int64_t(x.size()); ++at) {
      const int64_t image = at / (points * channels), point = at / channels % points, channel = at % channels;
      x[size_t(at)] = planes[size_t((image * channels + channel) * points + point)];
    }
    const auto filters = draw<float>(numbers, c.groups * c.filters * c.channels * w.tap_count());
    CHECK(convolved(team, w, c, Planes<float>{planes.data()}, filters) == convolved(team, w, c, x.data(), filters));
  }
}

TEST_CASE("direct convolution: more outputs than a block, images that are copied one by one") {
  Team team(3);
  Numbers numbers(2);
  const SlidingWindow wide{{1, 40, 41}, {1, 40, 41}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}};
  check_convolution<float>(team, wide, {1, 1, 3, 17}, numbers, 1e-4);
  const SlidingWindow point{{1, 700, 900}, {1, 2, 2}, {1, 1, 2}, {1, 699, 899}, {1, 1, 1}, {0, 0, 1}};
  REQUIRE(border_count(point, {3, 1, 2, 4}) < 2 * 700 * 900 * 2);
  check_convolution<float>(team, point, {3, 1, 2, 4}, numbers, 1e-5);
}

TEST_CASE("direct convolution: a sum does not depend on threads, other filters or other outputs") {
  Team one(1), three(3);
  Numbers numbers(3);
  const Convolution shape{2, 1, 40, 48};
  const auto x = draw<float>(numbers, 2 * kSquare.in_count() * 40);
  const auto filters = draw<float>(numbers, 48 * 40 * 9);
  const std::vector<float> y = convolved(one, kSquare, shape, x.data(), filters);
  CHECK(convolved(three, kSquare, shape, x.data(), filters) == y);
  const std::vector<float> few = convolved(one, kSquare, {2, 1, 40, 5}, x.data(), filters);
  for (size_t i = 0; i < few.size(); ++i) REQUIRE(few[i] == y[i / 5 * 48 + i % 5]);
  const std::vector<float> second = convolved(one, kSquare, {1, 1, 40, 48}, x.data() + 81 * 40, filters);
  CHECK(std::equal(second.begin(), second.end(), y.begin() + 81 * 48));
}

/// `together` channels beside each other, as convolve_bytes and convolve_pairs have filters.
template <class T>
static std::vector<T> packed_together(const SlidingWindow& w, const Convolution& c, int64_t together,
                                      const std::vector<T>& filters) {
  const int64_t elements = (c.channels + together - 1) / together, panels = (c.filters + 15) / 16;
  std::vector<T> packed(size_t(c.groups * panels * w.tap_count() * elements * 16 * together));
  for (int64_t n = 0; n < c.groups * c.filters; ++n)
    for (int64_t channel = 0; channel < c.channels; ++channel)
      for (int64_t tap = 0; tap < w.tap_count(); ++tap) {
        const int64_t in_group = n % c.filters, panel = n / c.filters * panels + in_group / 16;
        const int64_t row = (panel * w.tap_count() + tap) * elements + channel / together;
        packed[size_t((row * 16 + in_group % 16) * together + channel % together)] =
            filters[size_t((n * c.channels + channel) * w.tap_count() + tap)];
      }
  return packed;
}

/// The bytes of images whose channels lie innermost, in planes.
template <class Element>
static std::vector<Element> in_planes(const SlidingWindow& w, const Convolution& c, const std::vector<Element>& x) {
  const int64_t points = w.in_count(), channels = c.groups * c.channels;
  std::vector<Element> planes(x.size());
  for (int64_t i = 0; i < c.batch * points; ++i)
    for (int64_t n = 0; n < channels; ++n)
      planes[size_t((i / points * channels + n) * points + i % points)] = x[size_t(i * channels + n)];
  return planes;
}

/// Against plain sums, with each instruction of the machine and without; of images in planes too. Several groups have
/// multiples of 4 channels.
template <class Element>
static void check_bytes(const SlidingWindow& w, const Convolution& c, int32_t zero, Numbers& numbers) {
  Team team(2);
  std::vector<Element> x(size_t(c.batch * w.in_count() * c.groups * c.channels));
  std::vector<int8_t> filters(size_t(c.groups * c.filters * c.channels * w.tap_count()));
  for (Element& value : x) value = Element(pick(numbers, 0, 255));
  for (int8_t& value : filters) value = int8_t(pick(numbers, 0, 255));
  std::vector<int32_t> centred(x.begin(), x.end()), wide(filters.begin(), filters.end());
  for (int32_t& value : centred) value -= zero;
  const std::vector<double> want = plain_convolution(w, c, centred, wide);
  const std::vector<int8_t> packed = packed_together(w, c, 4, filters);
  const Convolution fours{c.batch, c.groups, (c.channels + 3) / 4, c.filters};
  std::vector<int32_t> y(want.size());
  const auto put = [&](int64_t m, int64_t n0, auto width, const int32_t* sums) {
    for (int64_t j = 0; j < width; ++j) y[size_t(m * c.groups * c.filters + n0 + j)] += sums[j];
  };
  const std::vector<Element> planes = in_planes(w, c, x);
  convolve_bytes(team, w, fours, BytePlanes<Element>{planes.data(), c.groups * c.channels}, zero, packed.data(), put);
  CHECK(largest_error(y, want) == 0);
  if (c.channels % 4 != 0) return;
  y.assign(y.size(), 0);
  convolve_bytes(team, w, fours, x.data(), zero, packed.data(), put);
  CHECK(largest_error(y, want) == 0);
  const auto check_with = [&]<ByteDot kDot>() {
    y.assign(y.size(), 0);
    using Quad = ByteQuad<Element, kDot>;
    convolve(team, w, fours, reinterpret_cast<const Quad*>(x.data()), reinterpret_cast<const Quad*>(packed.data()), put,
             NothingAhead{}, Quad{uint8_t(zero) * 0x01010101u}, zero + detail::kByteShift<Element>);
    CHECK(largest_error(y, want) == 0);
  };
  check_with.template operator()<ByteDot::None>();
  if constexpr (kMayHaveVexDot)
    if (has_avx_vnni()) check_with.template operator()<ByteDot::VexDot>();
}

TEST_CASE("direct convolution of bytes: exact sums, with a border that holds the zero point") {
  Numbers numbers(7);
  for (int i = 0; i < random_cases(40); ++i) {
    CAPTURE(i);
    const SlidingWindow window = random_window(numbers);
    const Convolution shape{pick(numbers, 1, 2), pick(numbers, 1, 2), 4 * pick(numbers, 1, 5), pick(numbers, 1, 50)};
    check_bytes<uint8_t>(window, shape, int32_t(pick(numbers, 0, 255)), numbers);
    check_bytes<int8_t>(window, shape, int32_t(pick(numbers, 0, 255)) - 128, numbers);
    const Convolution odd{shape.batch, 1, pick(numbers, 1, 9), shape.filters};
    check_bytes<uint8_t>(window, odd, int32_t(pick(numbers, 0, 255)), numbers);
    check_bytes<int8_t>(window, odd, int32_t(pick(numbers, 0, 255)) - 128, numbers);
  }
  // The largest sums: products of two neighbours do not saturate.
  const SlidingWindow point{{1, 1, 3}, {1, 1, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
  const std::vector<uint8_t> x(3 * 64, 255);
  const std::vector<int8_t> filters(16 * 64, -128);
  Team team(1);
  convolve_bytes(team, point, {1, 1, 16, 16}, x.data(), 0, filters.data(),
                 [&](int64_t, int64_t, auto width, const int32_t* sums) {
                   for (int64_t j = 0; j < width; ++j) REQUIRE(sums[j] == -128 * 255 * 64);
                 });
}

/// Against plain sums, with the machine's instruction and without. `c.channels` is even.
static void check_pairs(Team& team, const SlidingWindow& w, const Convolution& c, Numbers& numbers, double bound) {
  const auto drawn = [&](int64_t count) {
    std::vector<bfloat16> values;
    for (const float value : draw<float>(numbers, count)) values.emplace_back(value);
    return values;
  };
  const std::vector<bfloat16> x = drawn(c.batch * w.in_count() * c.groups * c.channels);
  const std::vector<bfloat16> filters = drawn(c.groups * c.filters * c.channels * w.tap_count());
  const std::vector<double> want = plain_convolution(w, c, x, filters);
  const std::vector<bfloat16> packed = packed_together(w, c, 2, filters);
  const Convolution pairs{c.batch, c.groups, c.channels / 2, c.filters};
  std::vector<float> y(want.size());
  const auto put = [&](int64_t m, int64_t n0, auto width, const float* sums) {
    for (int64_t j = 0; j < width; ++j) y[size_t(m * c.groups * c.filters + n0 + j)] += sums[j];
  };
  convolve_pairs(team, w, pairs, x.data(), packed.data(), put);
  CHECK(largest_error(y, want) < bound);
  y.assign(y.size(), 0);
  using Pair = BfloatPair<false>;
  convolve(team, w, pairs, reinterpret_cast<const Pair*>(x.data()), reinterpret_cast<const Pair*>(packed.data()), put);
  CHECK(largest_error(y, want) < bound);
}

TEST_CASE("direct convolution of pairs of bfloat16: random windows, and rows of products") {
  Team team(2);
  Numbers numbers(14);
  for (int i = 0; i < 40; ++i) {
    CAPTURE(i);
    const SlidingWindow window = random_window(numbers);
    const Convolution shape{pick(numbers, 1, 2), pick(numbers, 1, 2), 2 * pick(numbers, 1, 5), pick(numbers, 1, 50)};
    check_pairs(team, window, shape, numbers, 1e-4);
  }
  for (const int64_t rows : {1, 3, 13, 250}) {
    const SlidingWindow row{{1, 1, rows}, {1, 1, rows}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
    check_pairs(team, row, {1, 1, 766, 83}, numbers, 1e-4);
  }
}

TEST_CASE("direct convolution: no outputs, no work") {
  Team team(2);
  SlidingWindow window = kSquare;
  const float* const nothing = nullptr;
  CHECK(convolved(team, window, {0, 1, 2, 3}, nothing, std::vector<float>(2 * 3 * 9)).empty());
  CHECK(border_count(SlidingWindow{{1, 3, 4}, {1, 2, 4}, {1, 1, 1}, {1, 2, 1}, {1, 1, 1}, {0, 0, 0}}, {2, 1, 5, 3}) ==
        0);
}

TEST_CASE("direct convolution: a border is written whole, whatever was in memory") {
  Team team(2);
  const SlidingWindow window{{1, 2, 3}, {1, 3, 4}, {1, 2, 2}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}};
  const Convolution shape{.batch = 1, .groups = 1, .channels = 1, .filters = 1};
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  std::vector<float> bordered(size_t(border_count(window, shape)), 7.0f);
  detail::add_border(team, window, detail::bordered_image(window, shape), 1, x.data(), bordered.data());
  CHECK(bordered == std::vector<float>{0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0, 0});
}

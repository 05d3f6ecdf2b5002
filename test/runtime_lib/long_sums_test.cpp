// Sums of very many positive products keep their digits: the largest error of some, against sums in double, is at most
// four times that of as many pairwise sums.
#include <doctest/doctest.h>

#include <vector>

#include "plain_convolution.h"
#include "random_values.h"
#include "weft/block_product.h"
#include "weft/channels_last.h"
#include "weft/contract.h"
#include "weft/direct_convolution.h"
#include "weft/large_windows.h"
#include "weft/short_product.h"

using namespace weft;
using namespace windows;

namespace {

constexpr double kRounding = 1.0 / (1 << 24);

std::vector<float> positive(int64_t n, uint32_t seed) {
  std::vector<float> values = random_values<float>(n, seed);
  for (float& value : values) value = 0.5f * (value + 1.0f);
  return values;
}

/// The largest error of a sum, as a part of it, in roundings.
double roundings(const std::vector<float>& found, const std::vector<double>& wanted) {
  double most = 0;
  for (size_t i = 0; i < found.size(); ++i)
    most = std::max(most, std::fabs(double(found[i]) - wanted[i]) / wanted[i] / kRounding);
  return most;
}

/// The sum of products first .. last, in float, of either half.
float pairwise(const float* a, const float* b, int64_t first, int64_t last) {
  if (last - first == 1) return a[first] * b[first];
  const int64_t middle = (first + last) / 2;
  return pairwise(a, b, first, middle) + pairwise(a, b, middle, last);
}

/// The largest error allowed: four times the largest of some hundreds of pairwise sums of so many products.
double allowed(int64_t terms) {
  constexpr int64_t kSums = 200;
  const std::vector<float> a = positive(terms + kSums, 11), b = positive(terms, 12);
  std::vector<float> found;
  std::vector<double> wanted(kSums);
  for (int64_t i = 0; i < kSums; ++i) {
    found.push_back(pairwise(a.data() + i, b.data(), 0, terms));
    for (int64_t k = 0; k < terms; ++k) wanted[size_t(i)] += double(a[size_t(i + k)]) * double(b[size_t(k)]);
  }
  return 4 * roundings(found, wanted);
}

auto add_into(std::vector<float>& y, int64_t columns) {
  return [&y, columns](int64_t m, int64_t n0, auto width, const float* sums) {
    for (int64_t j = 0; j < width; ++j) y[size_t(m * columns + n0 + j)] += sums[j];
  };
}

/// Images and filters of so many positive numbers, and the sums in double.
struct Case {
  Case(const SlidingWindow& w, const Convolution& c)
      : x(positive(c.batch * w.in_count() * c.groups * c.channels, 1)),
        filters(positive(c.groups * c.filters * c.channels * w.tap_count(), 2)),
        wanted(plain_convolution(w, c, x, filters)),
        y(wanted.size()),
        terms(c.channels * w.tap_count()) {}
  std::vector<float> x, filters;
  std::vector<double> wanted;
  std::vector<float> y;
  int64_t terms;  // of each sum
};

constexpr SlidingWindow kThrees = {{1, 5, 5}, {1, 3, 3}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
constexpr SlidingWindow kFives = {{1, 6, 6}, {1, 2, 2}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
/// Windows about as large as the image, whose rows are long.
constexpr SlidingWindow kLarge = {{1, 110, 130}, {1, 2, 2}, {1, 109, 129}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};

}  // namespace

TEST_CASE("long sums: products of any number of rows") {
  Team team(2);
  const int64_t n = 34;
  for (const int64_t m : {1, 3, 9})
    for (const int64_t k : {97, 100, 128, 191, 192, 1000, 3000, 5000, 6100, 40000}) {
      const std::vector<float> a = positive(m * k, 1), b = positive(k * n, 2);
      std::vector<float> packed(size_t(packed_count(n, k))), y(size_t(m * n));
      std::vector<double> wanted(y.size());
      pack_panels(Unpacked<float>{b.data(), 1, n}, n, k, packed.data());
      contract_few<float>(team, {m, n, k}, Rows<float>{a.data(), k}, packed.data(), add_into(y, n));
      for (int64_t i = 0; i < m * n; ++i)
        for (int64_t l = 0; l < k; ++l)
          wanted[size_t(i)] += double(a[size_t(i / n * k + l)]) * double(b[size_t(l * n + i % n)]);
      CAPTURE(m);
      CAPTURE(k);
      CHECK(roundings(y, wanted) < allowed(k));
      if (k > 1000) continue;
      std::vector<float> out_of_registers(y.size());
      contract_short<float, n>(team, {m, n, k}, Rows<float>{a.data(), k}, packed.data(), add_into(out_of_registers, n));
      CHECK(out_of_registers == y);
    }
}

TEST_CASE("long sums: direct convolutions, over channels and over windows") {
  Team team(2);
  for (const auto& [window, shape] :
       {std::pair(kThrees, Convolution{1, 1, 11, 20}), std::pair(kThrees, Convolution{1, 1, 31, 20}),
        std::pair(kThrees, Convolution{1, 1, 34, 20}), std::pair(kThrees, Convolution{1, 1, 130, 20}),
        std::pair(kThrees, Convolution{1, 1, 1100, 20}), std::pair(kFives, Convolution{1, 3, 8, 8}),
        std::pair(kThrees, Convolution{1, 3, 11, 8}), std::pair(kLarge, Convolution{1, 1, 1, 3})}) {
    Case of(window, shape);
    std::vector<float> packed(size_t(packed_filter_count(window, shape)));
    pack_filters(window, shape, of.filters.data(), packed.data());
    convolve<float>(team, window, shape, of.x.data(), packed.data(), add_into(of.y, shape.groups * shape.filters));
    CAPTURE(shape.channels);
    CHECK(roundings(of.y, of.wanted) < allowed(of.terms));
  }
}

TEST_CASE("long sums: convolutions of one filter a channel") {
  Team team(2);
  for (const int64_t channels : {5, 36}) {
    const Convolution shape{1, channels, 1, 1};
    Case of(kLarge, shape);
    std::vector<float> packed(of.filters.size()), large(of.y.size());
    pack_channel_filters(kLarge, channels, of.filters.data(), packed.data());
    convolve_channels(team, kLarge, 1, channels, of.x.data(), packed.data(), add_into(of.y, channels));
    CHECK(roundings(of.y, of.wanted) < allowed(of.terms));
    if (channels < 16) continue;
    convolve_large_windows(team, kLarge, 1, channels, of.x.data(), packed.data(), add_into(large, channels));
    CHECK(roundings(large, of.wanted) < allowed(of.terms));
  }
}

/// A window of `tall` rows of known taps.
template <TapRow kRow>
void check_tap_rows(Team& team, int64_t tall) {
  constexpr int64_t kChannels = 20;
  const SlidingWindow w = {{1, tall + 1, 9}, {1, 2, 9}, {1, tall, kRow.taps},
                           {1, 1, 1},        {1, 1, 1}, {0, 0, kRow.taps / 2}};
  Case of(w, {1, kChannels, 1, 1});
  std::vector<float> packed(of.filters.size());
  pack_channel_filters(w, kChannels, of.filters.data(), packed.data());
  convolve_channels<kRow, kChannels>(team, w, 1, of.x.data(), packed.data(), add_into(of.y, kChannels));
  CAPTURE(tall);
  CHECK(roundings(of.y, of.wanted) < allowed(of.terms));
}

TEST_CASE("long sums: rows of taps that are known, of a window with many rows") {
  Team team(2);
  for (const int64_t tall : {33, 34, 201, 680}) check_tap_rows<TapRow{3, 1, 1}>(team, tall);
  for (const int64_t tall : {14, 20, 290}) check_tap_rows<TapRow{7, 1, 1}>(team, tall);
}

/// A product with numbers of 4 bits and a scale and a zero for each block.
void check_blocks(Team& team, int64_t size, int64_t blocks) {
  constexpr int64_t kColumns = 16;
  const int64_t depth = size * blocks;
  const std::vector<float> drawn = positive(depth * kColumns, 1), scales = positive(blocks * kColumns, 2);
  std::vector<uint32_t> words(size_t(depth / 8 * kColumns));
  std::vector<float> terms(size_t(blocks * 2 * kColumns));
  for (int64_t i = 0; i < depth * kColumns; ++i)
    words[size_t(i / kColumns / 8 * kColumns + i % kColumns)] |= uint32_t(drawn[size_t(i)] * 16)
                                                                 << i / kColumns % 8 * 4;
  for (int64_t i = 0; i < blocks * kColumns; ++i)
    terms[size_t(i / kColumns * 2 * kColumns + i % kColumns)] = scales[size_t(i)];
  for (const int64_t m : {1, 5}) {
    const std::vector<float> a = positive(m * depth, 3);
    std::vector<float> y(size_t(m * kColumns));
    std::vector<double> wanted(y.size());
    contract_few_blocks<4>(team, {m, kColumns, depth}, Rows<float>{a.data(), depth}, {words.data(), terms.data(), size},
                           add_into(y, kColumns));
    for (int64_t i = 0; i < m * kColumns; ++i)
      for (int64_t k = 0; k < depth; ++k)
        wanted[size_t(i)] += double(a[size_t(i / kColumns * depth + k)]) *
                             double(uint32_t(drawn[size_t(k * kColumns + i % kColumns)] * 16)) *
                             double(scales[size_t(k / size * kColumns + i % kColumns)]);
    CAPTURE(size);
    CAPTURE(m);
    CHECK(roundings(y, wanted) < allowed(depth));
  }
}

TEST_CASE("long sums: weights of 4 bits in many blocks, and in long ones") {
  Team team(2);
  check_blocks(team, 16, 2000);
  check_blocks(team, 96, 3);
  for (const int64_t size : {104, 128, 256, 1024})
    for (const int64_t blocks : {1, 3, 70}) check_blocks(team, size, blocks);
}

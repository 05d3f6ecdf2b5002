// Sums of very many positive products keep their digits: each differs from the sum in double by a few roundings.
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
/// The worst of some hundred sums of 96 terms in turn loses up to 12 roundings, of 1,000 terms more than 20.
constexpr double kFew = 16;

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
        y(wanted.size()) {}
  std::vector<float> x, filters;
  std::vector<double> wanted;
  std::vector<float> y;
};

constexpr SlidingWindow kThrees = {{1, 5, 5}, {1, 3, 3}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
/// Windows about as large as the image, whose rows are long.
constexpr SlidingWindow kLarge = {{1, 110, 130}, {1, 2, 2}, {1, 109, 129}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};

}  // namespace

TEST_CASE("long sums: products of any number of rows") {
  Team team(2);
  const int64_t n = 34;
  for (const int64_t m : {1, 3, 9})
    for (const int64_t k : {100, 1000, 5000, 40000}) {
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
      CHECK(roundings(y, wanted) < kFew);
      if (k > 1000) continue;
      std::vector<float> out_of_registers(y.size());
      contract_short<float, n>(team, {m, n, k}, Rows<float>{a.data(), k}, packed.data(), add_into(out_of_registers, n));
      CHECK(out_of_registers == y);
    }
}

TEST_CASE("long sums: direct convolutions, over channels and over windows") {
  Team team(2);
  for (const auto& [window, shape] :
       {std::pair(kThrees, Convolution{1, 1, 130, 20}), std::pair(kThrees, Convolution{1, 1, 1100, 20}),
        std::pair(kThrees, Convolution{1, 3, 8, 8}), std::pair(kLarge, Convolution{1, 1, 1, 3})}) {
    Case of(window, shape);
    std::vector<float> packed(size_t(packed_filter_count(window, shape)));
    pack_filters(window, shape, of.filters.data(), packed.data());
    convolve<float>(team, window, shape, of.x.data(), packed.data(), add_into(of.y, shape.groups * shape.filters));
    CAPTURE(shape.channels);
    CHECK(roundings(of.y, of.wanted) < kFew);
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
    CHECK(roundings(of.y, of.wanted) < kFew);
    if (channels < 16) continue;
    convolve_large_windows(team, kLarge, 1, channels, of.x.data(), packed.data(), add_into(large, channels));
    CHECK(roundings(large, of.wanted) < kFew);
  }
}

TEST_CASE("long sums: rows of taps that are known, of a window with many rows") {
  constexpr SlidingWindow kTall = {{1, 202, 9}, {1, 2, 9}, {1, 201, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 1}};
  constexpr int64_t kChannels = 20;
  Team team(2);
  Case of(kTall, {1, kChannels, 1, 1});
  std::vector<float> packed(of.filters.size());
  pack_channel_filters(kTall, kChannels, of.filters.data(), packed.data());
  convolve_channels<TapRow{3, 1, 1}, kChannels>(team, kTall, 1, of.x.data(), packed.data(), add_into(of.y, kChannels));
  CHECK(roundings(of.y, of.wanted) < kFew);
}

TEST_CASE("long sums: weights of 4 bits in many blocks") {
  constexpr int64_t kBlock = 16, kBlocks = 2000, kDepth = kBlock * kBlocks, kColumns = 16;
  Team team(2);
  const std::vector<float> drawn = positive(kDepth * kColumns, 1), scales = positive(kBlocks * kColumns, 2);
  std::vector<uint32_t> words(size_t(kDepth / 8 * kColumns));
  std::vector<float> terms(size_t(kBlocks * 2 * kColumns));
  for (int64_t i = 0; i < kDepth * kColumns; ++i)
    words[size_t(i / kColumns / 8 * kColumns + i % kColumns)] |= uint32_t(drawn[size_t(i)] * 16)
                                                                 << i / kColumns % 8 * 4;
  for (int64_t i = 0; i < kBlocks * kColumns; ++i)
    terms[size_t(i / kColumns * 2 * kColumns + i % kColumns)] = scales[size_t(i)];
  for (const int64_t m : {1, 5}) {
    const std::vector<float> a = positive(m * kDepth, 3);
    std::vector<float> y(size_t(m * kColumns));
    std::vector<double> wanted(y.size());
    contract_few_blocks<4>(team, {m, kColumns, kDepth}, Rows<float>{a.data(), kDepth},
                           {words.data(), terms.data(), kBlock}, add_into(y, kColumns));
    for (int64_t i = 0; i < m * kColumns; ++i)
      for (int64_t k = 0; k < kDepth; ++k)
        wanted[size_t(i)] += double(a[size_t(i / kColumns * kDepth + k)]) *
                             double(uint32_t(drawn[size_t(k * kColumns + i % kColumns)] * 16)) *
                             double(scales[size_t(k / kBlock * kColumns + i % kColumns)]);
    CHECK(roundings(y, wanted) < kFew);
  }
}

// Products with weights of few bits against sums in double, for extents around the sizes of tiles, words and blocks.
#include "weft/block_product.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "../larger.h"
#include "weft/random.h"

using namespace weft;

namespace {

/// Numbers and terms as functions of their place, and in panels.
template <int kBits>
struct Weight {
  Weight(int64_t n, int64_t k, int64_t size)
      : n(n), k(k), size(size), words(size_t(panels() * k / detail::kEach<kBits> * kPanel)) {
    terms.resize(size_t(panels() * k / size * 2 * kPanel));
    for (int64_t i = 0; i < panels() * kPanel; ++i) {
      for (int64_t l = 0; l < k; ++l) {
        const int64_t word = l / detail::kEach<kBits>, place = l % detail::kEach<kBits>;
        words[size_t(i / kPanel * (k / detail::kEach<kBits>)+word) * kPanel + size_t(i % kPanel)] |= number(i, l)
                                                                                                     << (kBits * place);
      }
      for (int64_t b = 0; b < k / size; ++b) {
        float* at = terms.data() + (i / kPanel * (k / size) + b) * 2 * kPanel + i % kPanel;
        at[0] = scale(i, b), at[kPanel] = zero(i, b);
      }
    }
  }
  int64_t panels() const { return (n + kPanel - 1) / kPanel; }
  uint32_t number(int64_t column, int64_t row) const {
    return uint32_t(Random{3, 0}.uniform(column * k + row) * (1 << kBits));
  }
  float scale(int64_t column, int64_t b) const { return float(0.01 + Random{4, 0}.uniform(column * k + b)); }
  float zero(int64_t column, int64_t b) const {
    return std::floor(float(Random{5, 0}.uniform(column * k + b) * (1 << kBits)));
  }
  BlockWeight packed() const { return {words.data(), terms.data(), size}; }

  int64_t n, k, size;
  std::vector<uint32_t> words;
  std::vector<float> terms;
};

auto store_into(std::vector<float>& y, int64_t n) {
  return [&y, n](int64_t m, int64_t n0, auto width, const float* sums) {
    for (int64_t j = 0; j < width; ++j) y[size_t(m * n + n0 + j)] += sums[j];  // twice put would show
  };
}

/// The weight has more blocks than the product takes.
void check_shorter(Team& team) {
  const int64_t m = 5, n = 40, size = 16, k = 48;
  const Weight<4> whole(n, 80, size);
  std::vector<float> a, few(size_t(m * n)), many = few;
  for (int64_t i = 0; i < m * k; ++i) a.push_back(float(2 * Random{1, 0}.uniform(i) - 1));
  const Contraction c{m, n, k, 80};
  contract_blocks<4>(team, c, Rows<float>{a.data(), k}, whole.packed(), store_into(many, n));
  for (int64_t row = 0; row < m; ++row)
    contract_few_blocks<4>(team, {1, n, k, 80}, Rows<float>{a.data() + row * k, k}, whole.packed(),
                           [&](int64_t, int64_t n0, auto width, const float* sums) {
                             for (int64_t j = 0; j < width; ++j) few[size_t(row * n + n0 + j)] += sums[j];
                           });
  CHECK(few == many);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double want = 0;
      for (int64_t l = 0; l < k; ++l)
        want += double(a[size_t(i * k + l)]) * (double(whole.number(j, l)) - double(whole.zero(j, l / size))) *
                double(whole.scale(j, l / size));
      CHECK(many[size_t(i * n + j)] == doctest::Approx(want).epsilon(1e-4));
    }
}

/// The products of up to `most` rows, each of which has the bits that it has alone.
template <int kBits>
void check(Team& team, int64_t most, int64_t n, int64_t k, int64_t size) {
  const Weight<kBits> weight(n, k, size);
  std::vector<float> a, turned(size_t(most * k)), alone(size_t(most * n));
  for (int64_t i = 0; i < most * k; ++i) a.push_back(float(2 * Random{1, 0}.uniform(i) - 1));
  for (int64_t i = 0; i < most * k; ++i) turned[size_t(i % k * most + i / k)] = a[size_t(i)];
  const Rows<float> rows{a.data(), k};
  double error = 0, largest = 0;
  for (int64_t m = 0; m < most; ++m) {
    const auto put = [&](int64_t, int64_t n0, auto width, const float* sums) {
      for (int64_t j = 0; j < width; ++j) alone[size_t(m * n + n0 + j)] += sums[j];
    };
    contract_few_blocks<kBits>(team, {1, n, k}, Rows<float>{a.data() + m * k, k}, weight.packed(), put);
    for (int64_t j = 0; j < n; ++j) {
      double want = 0;
      for (int64_t l = 0; l < k; ++l)
        want += double(a[size_t(m * k + l)]) * (double(weight.number(j, l)) - double(weight.zero(j, l / size))) *
                double(weight.scale(j, l / size));
      error = larger(error, std::fabs(want - double(alone[size_t(m * n + j)])));
      largest = larger(largest, std::fabs(want));
    }
  }
  CAPTURE(kBits);
  CAPTURE(n);
  CAPTURE(k);
  CAPTURE(size);
  CHECK(error < 1e-5 * largest);
  for (const int64_t m : {1, 2, 3, 4, 7, 13, 130}) {
    if (m > most) break;
    const std::vector<float> wanted(alone.begin(), alone.begin() + m * n);
    std::vector<float> few(size_t(m * n)), many = few, strided = few, by_function = few;
    contract_few_blocks<kBits>(team, {m, n, k}, rows, weight.packed(), store_into(few, n));
    contract_blocks<kBits>(team, {m, n, k}, rows, weight.packed(), store_into(many, n));
    contract_few_blocks<kBits>(team, {m, n, k}, Strided<float>{turned.data(), 1, most}, weight.packed(),
                               store_into(strided, n));
    contract_few_blocks<kBits>(
        team, {m, n, k}, [&](int64_t row) { return a.data() + row * k; }, weight.packed(), store_into(by_function, n));
    CAPTURE(m);
    CHECK(few == wanted);
    CHECK(many == wanted);
    CHECK(strided == wanted);
    CHECK(by_function == wanted);
  }
}

}  // namespace

TEST_CASE("block product: a row has the same bits alone and among others, near sums in double") {
  for (const int threads : {1, 3}) {
    Team team(threads);
    for (const int64_t n : {1, 16, 17, 33, 50, 80}) check<4>(team, 7, n, 96, 32);
    check<4>(team, 130, 40, 64, 16);
    check<4>(team, 4, 35, 1536, 128);
    check<4>(team, 4, 20, 1024, 1024);
    check<2>(team, 7, 35, 64, 16);
    check<2>(team, 4, 50, 832, 64);
    check<8>(team, 7, 35, 36, 4);
    check<8>(team, 13, 50, 768, 256);
    check_shorter(team);
  }
}

// Choosing tokens: what is kept follows from the logits alone, and draws follow the probabilities of what is kept.
#include "runtime_lib/src/sampling.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "runtime_lib/src/failure.h"

using namespace weft;

namespace {

const std::vector<double> kLogits = {0.5, 2.0, -1.0, 1.0, 2.0, -3.0, 0.0, 1.5};

/// Every token that some of `draws` at equal distances gives: each whose probability is larger than that distance.
std::set<int64_t> kept_tokens(const std::vector<double>& logits, const Sampling& sampling, int draws = 10'000) {
  std::set<int64_t> out;
  for (int i = 0; i < draws; ++i) out.insert(choose_token(logits, sampling, double(i) / draws));
  return out;
}

/// The probabilities of the kept tokens, by the textbook.
std::vector<double> probabilities(const std::vector<double>& logits, const std::set<int64_t>& kept,
                                  double temperature) {
  std::vector<double> out(logits.size(), 0);
  for (const int64_t token : kept) out[size_t(token)] = std::exp(logits[size_t(token)] / temperature);
  const double sum = std::accumulate(out.begin(), out.end(), 0.0);
  for (double& p : out) p /= sum;
  return out;
}

/// How far counts of draws are from what the probabilities say, in units in which `degrees` is expected.
double chi_square(const std::vector<double>& expected, const std::vector<int>& counts, int draws) {
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == 0) {
      CHECK(counts[i] == 0);
      continue;
    }
    const double difference = counts[i] - expected[i] * draws;
    sum += difference * difference / (expected[i] * draws);
  }
  return sum;
}

}  // namespace

TEST_CASE("without a temperature the largest logit is taken, of equal ones the first") {
  for (const double draw : {0.0, 0.5, 0.999}) CHECK(choose_token(kLogits, {.top_k = 3, .top_p = 0.9}, draw) == 1);
}

TEST_CASE("top_k keeps the most likely tokens, of equally likely ones the lower number") {
  CHECK(kept_tokens(kLogits, {.temperature = 1, .top_k = 1}) == std::set<int64_t>{1});
  CHECK(kept_tokens(kLogits, {.temperature = 1, .top_k = 2}) == std::set<int64_t>{1, 4});
  CHECK(kept_tokens(kLogits, {.temperature = 1, .top_k = 4}) == std::set<int64_t>{1, 3, 4, 7});
  CHECK(kept_tokens(kLogits, {.temperature = 1, .top_k = 100}).size() == kLogits.size());
}

TEST_CASE("top_p keeps the fewest most likely tokens that have the probability") {
  // In order: 1 and 4 (0.295 each), 7 (0.179), 3 (0.109), 0 (0.066), 6 (0.040), 2 (0.015), 5 (0.002).
  CHECK(kept_tokens(kLogits, {.temperature = 1, .top_p = 0}) == std::set<int64_t>{1});
  CHECK(kept_tokens(kLogits, {.temperature = 1, .top_p = 0.29}) == std::set<int64_t>{1});
  CHECK(kept_tokens(kLogits, {.temperature = 1, .top_p = 0.58}) == std::set<int64_t>{1, 4});
  CHECK(kept_tokens(kLogits, {.temperature = 1, .top_p = 0.75}) == std::set<int64_t>{1, 4, 7});
  CHECK(kept_tokens(kLogits, {.temperature = 1, .top_k = 3, .top_p = 0.75}) == std::set<int64_t>{1, 4});
}

TEST_CASE("a draw goes through the tokens by their numbers, whatever top_p has sorted") {
  const std::vector<double> rising = {0.0, 0.1, 0.2, 0.3};
  for (const double top_p : {1.0, 0.99}) {
    CHECK(choose_token(rising, {.temperature = 1, .top_p = top_p}, 0.0) == 0);
    CHECK(choose_token(rising, {.temperature = 1, .top_p = top_p}, 0.999) == 3);
  }
}

TEST_CASE("top_p of a flat distribution sorts far more tokens than of a steep one") {
  const std::vector<double> flat(1000, 1.25);
  const std::set<int64_t> kept = kept_tokens(flat, {.temperature = 1, .top_p = 0.5}, 2000);
  CHECK(kept.size() == 500);
  CHECK(*kept.rbegin() == 499);
}

TEST_CASE("draws have the distribution of the kept tokens") {
  constexpr int kDraws = 200'000;
  const Sampling ways[] = {{.temperature = 1},
                           {.temperature = 0.5},
                           {.temperature = 3, .seed = 7},
                           {.temperature = 1, .top_k = 4},
                           {.temperature = 1, .top_p = 0.85},
                           {.temperature = 0.7, .top_k = 6, .top_p = 0.9, .seed = 1}};
  for (const Sampling& sampling : ways) {
    std::vector<int> counts(kLogits.size(), 0);
    for (int i = 0; i < kDraws; ++i)
      ++counts[size_t(choose_token(kLogits, sampling, draw_for_token(sampling.seed, i % 4, i / 4)))];
    const std::set<int64_t> kept = kept_tokens(kLogits, sampling, kDraws / 2);  // the rarest has one in 57,000
    CAPTURE(sampling.temperature);
    CAPTURE(sampling.top_k);
    CHECK(kept.size() > 2);
    // With 2 to 7 degrees of freedom a right sampler exceeds 29.9 in one of 10,000 seeds; these seeds are fixed.
    CHECK(chi_square(probabilities(kLogits, kept, sampling.temperature), counts, kDraws) < 29.9);
  }
}

TEST_CASE("a draw depends on seed, row and position alone") {
  CHECK(draw_for_token(3, 1, 100) == draw_for_token(3, 1, 100));
  std::set<double> draws;
  for (int64_t seed = 0; seed < 4; ++seed)
    for (int64_t row = 0; row < 4; ++row)
      for (int64_t position = 0; position < 64; ++position) draws.insert(draw_for_token(seed, row, position));
  CHECK(draws.size() == 4 * 4 * 64);
  CHECK(*draws.begin() >= 0);
  CHECK(*draws.rbegin() < 1);
}

TEST_CASE("nothing can be chosen from what is no number") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(choose_token(std::vector<double>{1, std::nan(""), 2}, {}, 0) == -1);
  CHECK(choose_token(std::vector<double>{1, infinity}, {.temperature = 1}, 0) == -1);
  CHECK(choose_token(std::vector<double>{-infinity, -infinity}, {}, 0) == -1);
  CHECK(choose_token(std::vector<double>{-infinity, 1, -infinity}, {.temperature = 1}, 0.99) == 1);
}

TEST_CASE("settings are checked and take the place of others") {
  const Sampling changed = with_settings({.max_new = 5, .seed = 3}, {{"temperature", 0.5}, {"top_k", 40.0}});
  CHECK(changed.max_new == 5);
  CHECK(changed.temperature == 0.5);
  CHECK(changed.top_k == 40);
  CHECK(changed.seed == 3);
  CHECK_THROWS_AS(check_setting(*find_setting("top_p"), 1.5, kUsage, "--top-p"), Failure);
  CHECK_THROWS_AS(check_setting(*find_setting("max_new"), 2.5, kUsage, "--max-new"), Failure);
  CHECK_THROWS_AS(check_setting(*find_setting("temperature"), std::nan(""), kUsage, "--temperature"), Failure);
  CHECK(find_setting("warmth") == nullptr);
}

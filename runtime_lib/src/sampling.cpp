// Temperature, then top_k, then top_p, in double precision; see sampling.h.
#include "sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "failure.h"
#include "weft/random.h"

namespace weft {

namespace {

constexpr Setting kSettings[] = {
    {{"max_new", {}, Own<int64_t>{{0, 1}}},
     "--max-new",
     "N",
     "tokens to generate at most",
     1,
     1e9,
     [](Sampling& s, double value) { s.max_new = int64_t(value); }},
    {{"temperature", {}, Own<double>{{0, 1}}},
     "--temperature",
     "X",
     "0: the token of the largest logit; else logits are divided by it, and a token is drawn",
     0,
     1e6,
     [](Sampling& s, double value) { s.temperature = value; }},
    {{"top_k", {}, Own<int64_t>{{0, 1}}},
     "--top-k",
     "N",
     "draw from the N most likely tokens (0: from all)",
     0,
     1e9,
     [](Sampling& s, double value) { s.top_k = int64_t(value); }},
    {{"top_p", {}, Own<double>{{0, 1}}},
     "--top-p",
     "X",
     "draw from the fewest most likely tokens that have this probability together (1: from all)",
     0,
     1,
     [](Sampling& s, double value) { s.top_p = value; }},
    {{"seed", {}, Own<int64_t>{{0, 1}}},
     "--seed",
     "N",
     "of the draws",
     0,
     4294967295.0,
     [](Sampling& s, double value) { s.seed = int64_t(value); }},
};

/// Tokens by descending probability; among equal ones, the lower number first. The order is strict, so that every
/// algorithm keeps the same tokens.
struct MoreLikely {
  std::span<const double> logits;
  bool operator()(int64_t a, int64_t b) const {
    const double of_a = logits[size_t(a)], of_b = logits[size_t(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  }
};

double sum_of(const std::vector<int64_t>& tokens, const std::vector<double>& weights, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += weights[size_t(tokens[i])];
  return sum;
}

/// Leaves the `count` most likely tokens.
void keep_most_likely(std::vector<int64_t>& tokens, size_t count, const MoreLikely& more_likely) {
  if (count >= tokens.size()) return;
  std::nth_element(tokens.begin(), tokens.begin() + std::ptrdiff_t(count), tokens.end(), more_likely);
  tokens.resize(count);
}

/// Leaves the fewest most likely tokens that have `part` of the weight of all. Few tokens of many have most of the
/// weight: more and more of them are sorted until they do.
void keep_part(std::vector<int64_t>& tokens, double part, const std::vector<double>& weights,
               const MoreLikely& more_likely) {
  const double wanted = part * sum_of(tokens, weights, tokens.size());
  constexpr size_t kFirst = 64;
  for (size_t sorted = std::min(kFirst, tokens.size());; sorted = std::min(4 * sorted, tokens.size())) {
    const auto end = tokens.begin() + std::ptrdiff_t(sorted);
    std::partial_sort(tokens.begin(), end, tokens.end(), more_likely);
    double sum = 0;
    for (size_t i = 0; i < sorted; ++i)
      if ((sum += weights[size_t(tokens[i])]) >= wanted) return tokens.resize(i + 1);
    if (sorted == tokens.size()) return;
  }
}

}  // namespace

std::span<const Setting> settings() { return kSettings; }

const Setting* find_setting(std::string_view name) {
  for (const Setting& setting : kSettings)
    if (name == setting.port.name) return &setting;
  return nullptr;
}

void check_setting(const Setting& setting, double value, int code, const std::string& source) {
  const bool is_integer = setting.port.dtype == DType::I64;
  if (!(value >= setting.low && value <= setting.high))
    fail(code, "%s is %.10g: %s from %.10g to %.10g is expected", source.c_str(), value,
         is_integer ? "an integer" : "a number", setting.low, setting.high);
  if (is_integer && value != std::floor(value))
    fail(code, "%s is %.10g: an integer is expected", source.c_str(), value);
}

Sampling with_settings(Sampling sampling, const std::map<std::string, double>& changed) {
  for (const auto& [name, value] : changed) find_setting(name)->set(sampling, value);
  return sampling;
}

double draw_for_token(int64_t seed, int64_t row, int64_t position) {
  const Random random{uint32_t(seed), UINT32_MAX, uint32_t(position), 0};
  return double(random.bits(row)) * 0x1p-32;
}

int64_t choose_token(std::span<const double> logits, const Sampling& sampling, double draw) {
  int64_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) return -1;
    if (logits[i] > logits[size_t(best)]) best = int64_t(i);
  }
  const double largest = logits[size_t(best)];
  if (!std::isfinite(largest)) return -1;
  if (sampling.temperature == 0) return best;

  std::vector<int64_t> kept(logits.size());
  std::iota(kept.begin(), kept.end(), 0);
  const MoreLikely more_likely{logits};
  if (sampling.top_k > 0) keep_most_likely(kept, size_t(sampling.top_k), more_likely);
  std::vector<double> weights(logits.size());
  for (const int64_t token : kept)
    weights[size_t(token)] = std::exp((logits[size_t(token)] - largest) / sampling.temperature);
  if (sampling.top_p < 1) keep_part(kept, sampling.top_p, weights, more_likely);
  if (!std::is_sorted(kept.begin(), kept.end())) std::sort(kept.begin(), kept.end());

  const double wanted = draw * sum_of(kept, weights, kept.size());
  double sum = 0;
  int64_t chosen = best;  // weights of 0 are never drawn
  for (const int64_t token : kept) {
    if (weights[size_t(token)] == 0) continue;
    chosen = token;
    if ((sum += weights[size_t(token)]) > wanted) break;
  }
  return chosen;
}

}  // namespace weft

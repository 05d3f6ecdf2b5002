// Which boxes of a line stay, by comparing all pairs, for the tests of what selects them; and lines to select from.
#pragma once
#include <algorithm>
#include <random>
#include <vector>

#include "weft/boxes.h"

/// Boxes [length, 4] with a score each.
template <class T>
struct BoxLine {
  std::vector<T> edges, scores;

  int64_t length() const { return int64_t(scores.size()); }
};

/// Boxes within a square of `room`: the smaller that is, the more overlap. Scores are one of `ranks`, many of them
/// equal.
template <class T>
BoxLine<T> drawn_boxes(int64_t length, unsigned room, unsigned ranks) {
  std::mt19937 draws(5);
  BoxLine<T> line;
  for (int64_t i = 0; i < length; ++i) {
    for (int k = 0; k < 2; ++k) line.edges.push_back(T(draws() % room));
    for (int k = 0; k < 2; ++k) line.edges.push_back(T(4 + draws() % 8));
    line.scores.push_back(T(draws() % ranks) / T(ranks));
  }
  return line;
}

template <weft::BoxForm kForm, class T>
std::vector<int64_t> kept_boxes(const BoxLine<T>& line, int64_t places, const weft::BoxLimits<T>& limits) {
  std::vector<int64_t> order, kept;
  for (int64_t i = 0; i < line.length(); ++i)
    if (!limits.has_lowest || line.scores[size_t(i)] > limits.lowest) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return line.scores[size_t(a)] > line.scores[size_t(b)]; });
  const auto box = [&](int64_t i) {
    const T* const at = &line.edges[size_t(4 * i)];
    return weft::box_of<kForm, T>(at[0], at[1], at[2], at[3]);
  };
  for (const int64_t i : order) {
    const bool is_covered = std::any_of(
        kept.begin(), kept.end(), [&](int64_t other) { return weft::overlap(box(other), box(i), limits.overlap); });
    if (!is_covered && int64_t(kept.size()) < std::min(limits.most, places)) kept.push_back(i);
  }
  kept.resize(size_t(places), -1);
  return kept;
}

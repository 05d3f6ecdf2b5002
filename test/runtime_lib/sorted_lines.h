// The reference for TopK: a whole line in order.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "weft/order_key.h"

/// NaN is the largest value.
template <class T>
bool is_less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  }
  return a < b;
}

/// The indices of a line's elements in their order; those of equal elements ascend.
template <class T, weft::Extreme kExtreme>
std::vector<int64_t> sorted_indices(const std::vector<T>& line) {
  std::vector<int64_t> order(line.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = int64_t(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const T x = line[size_t(a)], y = line[size_t(b)];
    return kExtreme == weft::Extreme::Largest ? is_less(y, x) : is_less(x, y);
  });
  return order;
}

// Numbers for products.
#pragma once
#include <cstdint>
#include <vector>

#include "weft/random.h"

/// n numbers in [-1, 1), the same for the same seed.
template <class T>
std::vector<T> random_values(int64_t n, uint32_t seed) {
  std::vector<T> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(T(2 * weft::Random{seed, 0}.uniform(i) - 1));
  return out;
}

// The largest and smallest elements of rows beside those of a plain loop.
#include "weft/row_extremes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace {

/// Equal, or both NaN.
bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

template <class T>
int count_wrong(const std::vector<T>& row) {
  T largest = -std::numeric_limits<T>::infinity(), smallest = std::numeric_limits<T>::infinity();
  for (T x : row) largest = weft::maximum(largest, x), smallest = weft::minimum(smallest, x);
  const auto element = [&](int64_t i) { return row[size_t(i)]; };
  const int64_t count = int64_t(row.size());
  return !is_same(weft::maximum_of<T>(count, element), largest) +
         !is_same(weft::minimum_of<T>(count, element), smallest);
}

/// Rows of all lengths up to 300, with `special` at some places.
template <class T>
int count_wrong(T special) {
  int wrong = 0;
  for (size_t length = 0; length <= 300; ++length)
    for (size_t at = 0; at <= length; at += 1 + length / 9) {
      std::vector<T> row(length);
      for (size_t i = 0; i < length; ++i) row[i] = T(i * 37 % 101) - 60;
      if (at < length) row[at] = special;
      wrong += count_wrong(row);
    }
  return wrong;
}

}  // namespace

TEST_CASE_TEMPLATE("extremes of rows of any length, with NaN and infinities anywhere", T, float, double) {
  constexpr T kInf = std::numeric_limits<T>::infinity(), kNan = std::numeric_limits<T>::quiet_NaN();
  for (T special : {T(1000), T(-1000), kInf, -kInf, kNan, -kNan}) CHECK(count_wrong(special) == 0);
}

TEST_CASE("rows of nothing but infinities") {
  for (int64_t count : {1, 5, 16, 100}) {
    CHECK(weft::maximum_of<float>(count, [](int64_t) { return -INFINITY; }) == -INFINITY);
    CHECK(weft::minimum_of<float>(count, [](int64_t) { return INFINITY; }) == INFINITY);
  }
}

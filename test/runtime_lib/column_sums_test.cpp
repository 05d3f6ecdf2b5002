// Sums of columns beside those of a plain loop.
#include "weft/column_sums.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "weft/row_sums.h"

TEST_CASE_TEMPLATE("sums of columns of any number and length", T, float, double) {
  int wrong = 0;
  for (int64_t columns : {1, 7, 8, 9, 15, 16, 17, 31, 32, 40})
    for (int64_t count : {0, 1, 3, 4, 5, 127, 128, 129, 300, 1030}) {
      const auto element = [](int64_t column, int64_t i) { return T((i * 37 + column * 11) % 101 - 60); };
      std::vector<T> sums(size_t(columns), T(-1));
      weft::sum_columns<T>(2, 2 + columns, count, element,
                           [&](int64_t column, T sum) { sums[size_t(column - 2)] = sum; });
      for (int64_t column = 0; column < columns; ++column) {
        T sum = 0;  // of integers, exact in any order
        for (int64_t i = 0; i < count; ++i) sum += element(column + 2, i);
        wrong += sums[size_t(column)] != sum;
      }
    }
  CHECK(wrong == 0);
}

TEST_CASE("a column's sum has the same bits whichever columns are beside it") {
  std::mt19937 random(7);
  std::vector<float> x(1000 * 40);
  for (float& element : x) element = float(random()) * 1e-9f;
  const auto element = [&](int64_t column, int64_t i) { return x[size_t(i * 40 + column)]; };
  std::vector<float> whole(40), part(40);
  weft::sum_columns<float>(0, 40, 1000, element, [&](int64_t column, float sum) { whole[size_t(column)] = sum; });
  int64_t first = 0;
  for (int64_t width : {3, 8, 16, 13}) {
    weft::sum_columns<float>(first, first + width, 1000, element,
                             [&](int64_t column, float sum) { part[size_t(column)] = sum; });
    first += width;
  }
  CHECK(whole == part);
}

TEST_CASE("the error of a sum does not grow with its elements") {
  std::mt19937 random(7);
  for (int64_t count : {1000, 100'000, 1'000'000}) {
    std::vector<float> x(static_cast<size_t>(count));
    double wanted = 0;
    for (float& element : x) wanted += element = float(random()) * 1e-9f;
    const double most = 1.5e-7 * wanted;
    const auto row = [&](int64_t i) { return x[size_t(i)]; };
    CHECK(std::abs(weft::sum_of<float>(count, row) - wanted) < most);
    CHECK(std::abs(weft::sum_of_stored<float>(count, row) - wanted) < most);
    weft::sum_columns<float>(
        0, 1, count, [&](int64_t, int64_t i) { return x[size_t(i)]; },
        [&](int64_t, float sum) { CHECK(std::abs(sum - wanted) < most); });
  }
}

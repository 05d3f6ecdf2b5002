// Sums of rows beside those of a plain loop, and rows that are stored past the caches.
#include "weft/row_sums.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "weft/past_caches.h"

TEST_CASE_TEMPLATE("sums of rows of any length", T, float, double) {
  int wrong = 0;
  for (int64_t count = 0; count <= 300; ++count) {
    T sum = 0;  // of integers, exact in any order
    const auto element = [](int64_t i) { return T(i * 37 % 101 - 60); };
    for (int64_t i = 0; i < count; ++i) sum += element(i);
    wrong += weft::sum_of<T>(count, element) != sum;
    wrong += weft::sum_of_stored<T>(count, element) != sum;
  }
  CHECK(wrong == 0);
}

TEST_CASE("an element of a row that is summed is computed once") {
  for (int64_t count : {1, 15, 16, 100, 259}) {
    std::vector<int> times(size_t(count), 0);
    const auto element = [&](int64_t i) { return float(++times[size_t(i)]); };
    weft::sum_of<float>(count, element);
    CHECK(times == std::vector<int>(size_t(count), 1));
    weft::sum_of_stored<float>(count, element);
    CHECK(times == std::vector<int>(size_t(count), 2));
  }
}

TEST_CASE_TEMPLATE("rows stored past the caches, from any element to any", T, float, double) {
  constexpr int64_t kCount = 400;
  alignas(64) T memory[kCount + 7];
  int wrong = 0;
  for (int64_t before : {0, 1, 7})  // elements between the start of a line and that of the row
    for (int64_t first : {0, 1, 4, 16, 31})
      for (int64_t last = first; last <= kCount; last += 1 + last % 7) {
        T* const row = memory + before;
        std::fill_n(memory, kCount + 7, T(-1));
        std::vector<int> times(kCount, 0);
        std::thread([&] {
          weft::store_past_caches(row, first, last, [&](int64_t c) { return T(2 * c) + T(times[size_t(c)]++); });
          weft::finish_stores();
        }).join();
        for (int64_t c = -before; c < kCount + 7 - before; ++c)
          wrong += row[c] != (c < first || c >= last ? T(-1) : T(2 * c));
        for (int64_t c = 0; c < kCount; ++c) wrong += times[size_t(c)] != (c >= first && c < last);
      }
  CHECK(wrong == 0);
}

// The first elements of a line against sorting all of them: short and long lines, few and many elements, every type,
// equal elements, NaN and both zeros.
#include "weft/top_k.h"

#include <doctest/doctest.h>

#include <random>

#include "sorted_lines.h"

namespace {

using weft::Extreme;

template <class T>
struct Chosen {
  std::vector<T> elements;
  std::vector<int64_t> indices;
};

template <class T, Extreme kExtreme>
Chosen<T> top_k(const std::vector<T>& line, int64_t k) {
  Chosen<T> chosen{std::vector<T>(size_t(k)), std::vector<int64_t>(size_t(k), -1)};
  const auto load = [&](int64_t i) { return line[size_t(i)]; };
  weft::top_k<T, kExtreme>(int64_t(line.size()), k, load, [&](int64_t j, T element, int64_t at) {
    chosen.elements[size_t(j)] = element, chosen.indices[size_t(j)] = at;
  });
  return chosen;
}

template <class T, Extreme kExtreme>
void check_line(const std::vector<T>& line, int64_t k) {
  std::vector<int64_t> expected = sorted_indices<T, kExtreme>(line);
  expected.resize(size_t(k));
  const Chosen<T> chosen = top_k<T, kExtreme>(line, k);
  CHECK(chosen.indices == expected);
  for (size_t j = 0; j < chosen.elements.size(); ++j) {
    const T element = line[size_t(expected[j])];
    CHECK((chosen.elements[j] == element || (element != element && chosen.elements[j] != chosen.elements[j])));
  }
}

template <class T>
void check_type() {
  std::mt19937 draws(7);
  for (const int64_t length : {1, 2, 7, 64, 100, 1024, 1025, 5000}) {
    for (const int range : {3, 1 << 20}) {
      std::vector<T> line;
      for (int64_t i = 0; i < length; ++i) line.push_back(T(int(draws() % unsigned(range)) - range / 2));
      for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{8}, int64_t{9}, length / 2, length}) {
        if (k > length) continue;
        CAPTURE(length);
        CAPTURE(k);
        check_line<T, Extreme::Largest>(line, k);
        check_line<T, Extreme::Smallest>(line, k);
      }
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("top-k: the elements that sorting puts first", T, float, double, int8_t, int16_t, int32_t, int64_t,
                   uint8_t, uint16_t, uint32_t, uint64_t) {
  check_type<T>();
}

TEST_CASE_TEMPLATE("top-k: NaN is the largest, zeros are equal, infinities have their place", T, float, double) {
  const T nan = std::numeric_limits<T>::quiet_NaN(), inf = std::numeric_limits<T>::infinity();
  std::vector<T> line = {0, T(-0.0), -inf, nan, 1, inf, T(-0.0), 0, T(-nan), -1, std::numeric_limits<T>::denorm_min()};
  for (int64_t k = 1; k <= int64_t(line.size()); ++k) {
    check_line<T, Extreme::Largest>(line, k);
    check_line<T, Extreme::Smallest>(line, k);
  }
  CHECK(top_k<T, Extreme::Largest>(line, 3).indices == std::vector<int64_t>{3, 8, 5});
  CHECK(top_k<T, Extreme::Smallest>(line, 4).indices == std::vector<int64_t>{2, 9, 0, 1});
}

TEST_CASE_TEMPLATE("top-k: the ends of integer types", T, int32_t, int64_t, uint32_t, uint64_t) {
  const T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  const std::vector<T> line = {5, least, most, least, most, 0};
  for (int64_t k = 1; k <= 6; ++k) {
    check_line<T, Extreme::Largest>(line, k);
    check_line<T, Extreme::Smallest>(line, k);
  }
}

TEST_CASE("top-k: a long line of equal elements gives the first indices") {
  const std::vector<float> line(3000, 2.5f);
  check_line<float, Extreme::Largest>(line, 700);
  check_line<float, Extreme::Smallest>(line, 3);
}

// weft/selection.h and weft/box_selection.h: places of true elements, limits, boxes against comparing all pairs.
#include "weft/selection.h"

#include <doctest/doctest.h>

#include "plain_boxes.h"
#include "weft/box_selection.h"

namespace {

std::vector<int64_t> positions(const std::vector<char>& mask, int64_t most) {
  std::vector<int64_t> found(size_t(most), -1);
  int64_t count = -1;
  weft::true_positions(
      int64_t(mask.size()), most, [&](int64_t i) { return mask[size_t(i)] != 0; },
      [&](int64_t j, int64_t i) { found[size_t(j)] = i; }, [&](int64_t n) { count = n; });
  REQUIRE(count >= 0);
  found.resize(size_t(count));
  return found;
}

template <weft::BoxForm kForm, class T>
void check_boxes(const BoxLine<T>& line, int64_t places, const weft::BoxLimits<T>& limits) {
  CAPTURE(line.length());
  std::vector<int64_t> chosen(size_t(places), -7);
  weft::choose_boxes<T, kForm>(
      line.length(), places, limits, [&](int64_t i) { return line.scores[size_t(i)]; },
      [&](int64_t i, int64_t k) { return line.edges[size_t(4 * i + k)]; },
      [&](int64_t j, int64_t at) { chosen[size_t(j)] = at; });
  CHECK(chosen == kept_boxes<kForm>(line, places, limits));
}

}  // namespace

TEST_CASE("selection: places of true elements, none, all, and no more than there is room for") {
  CHECK(positions({0, 1, 0, 1, 1}, 5) == std::vector<int64_t>{1, 3, 4});
  CHECK(positions({0, 0}, 2).empty());
  CHECK(positions({1, 1, 1}, 3) == std::vector<int64_t>{0, 1, 2});
  CHECK(positions({1, 0, 1, 1}, 2) == std::vector<int64_t>{0, 2});
  CHECK(positions({}, 0).empty());
}

TEST_CASE_TEMPLATE("box selection: the boxes that comparing all pairs leaves", T, float, double) {
  for (const int64_t length : {0, 1, 7, 64, 300})
    for (const unsigned room : {12u, 60u})
      for (const T overlap : {T(0), T(0.4), T(1)}) {
        const BoxLine<T> line = drawn_boxes<T>(length, room, 9);
        check_boxes<weft::BoxForm::Corners, T>(line, length, {length, overlap, T(0.3), true});
        check_boxes<weft::BoxForm::Middle, T>(line, length, {length, overlap, T(0), false});
        check_boxes<weft::BoxForm::Middle, T>(line, length / 2, {3, overlap, T(0.1), true});
      }
}

TEST_CASE("box selection: corners in any order, boxes without an area, and a limit of none") {
  const BoxLine<float> line{{2, 2, 0, 0, 0, 0, 2, 2, 1, 1, 1, 3, 5, 5, 4, 6}, {0.5f, 0.9f, 0.8f, 0.1f}};
  check_boxes<weft::BoxForm::Corners, float>(line, 4, {4, 0.5f, 0, false});
  check_boxes<weft::BoxForm::Corners, float>(line, 4, {0, 0.5f, 0, false});
  check_boxes<weft::BoxForm::Corners, float>(line, 4, {-1, 0.5f, 0, false});
  CHECK(kept_boxes<weft::BoxForm::Corners>(line, 4, {4, 0.5f, 0, false}) == std::vector<int64_t>{1, 2, 3, -1});
}

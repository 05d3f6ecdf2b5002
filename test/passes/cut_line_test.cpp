// Lines of ops cut into stages: no stage is much longer than it must be, and of such cuts the cheapest is found.
#include "passes/prepare/cut_line.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace weftc;

namespace {

using Cut = std::vector<int>;

double longest(const std::vector<LineItem>& line, const Cut& cut) {
  std::vector<double> times(line.size(), 0);
  for (size_t i = 0; i < line.size(); ++i) times[static_cast<size_t>(cut[i])] += line[i].time;
  return *std::ranges::max_element(times);
}

int64_t bytes_of(const std::vector<LineItem>& line, const Cut& cut) {
  int64_t bytes = 0;
  for (size_t i = 1; i < line.size(); ++i)
    if (cut[i] != cut[i - 1]) bytes += line[i - 1].after;
  return bytes;
}

/// Calls use(cut) for every cut into so many stages.
template <class Use>
void for_each_cut(const std::vector<LineItem>& line, int stages, Cut cut, const Use& use) {
  if (cut.size() == line.size()) {
    if (cut.back() == stages - 1) use(cut);
    return;
  }
  for (const int next : {cut.back(), cut.back() + 1}) {
    if (next >= stages) continue;
    Cut more = cut;
    more.push_back(next);
    for_each_cut(line, stages, std::move(more), use);
  }
}

}  // namespace

TEST_CASE("cut_line: stages of equal time, cut where little is sent") {
  CHECK(cut_line({{1, 5}, {1, 5}, {1, 5}, {1, 0}}, 2) == Cut{0, 0, 1, 1});
  CHECK(cut_line({{3, 5}, {1, 5}, {1, 5}, {1, 0}}, 2) == Cut{0, 1, 1, 1});
  CHECK(cut_line({{100, 9}, {1, 2}, {100, 0}}, 2) == Cut{0, 0, 1});  // the same time, but for one of a hundred
  CHECK(cut_line({{0, 1}, {0, 1}, {5, 0}}, 3) == Cut{0, 1, 2});      // each stage has something
  CHECK(cut_line({{1, 0}}, 1) == Cut{0});
}

TEST_CASE("cut_line: as good as trying all cuts") {
  std::mt19937 random(1);
  const auto roll = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 300; ++round) {
    std::vector<LineItem> line(static_cast<size_t>(1 + roll(9)));
    for (LineItem& item : line) item = {static_cast<double>(roll(20)), roll(50)};
    const int stages = 1 + roll(static_cast<int>(line.size()));
    double least = INFINITY;
    for_each_cut(line, stages, {0}, [&](const Cut& cut) { least = std::min(least, longest(line, cut)); });
    int64_t fewest = INT64_MAX;
    for_each_cut(line, stages, {0}, [&](const Cut& cut) {
      if (longest(line, cut) <= 1.05 * least * (1 + 1e-12)) fewest = std::min(fewest, bytes_of(line, cut));
    });
    const Cut found = cut_line(line, stages);
    CHECK(longest(line, found) <= 1.05 * least + 1e-9);
    CHECK(bytes_of(line, found) == fewest);
  }
}

TEST_CASE("join_short_items: stretches of about a part of the time, between which little is sent") {
  CHECK(join_short_items({{1, 9}, {1, 9}, {1, 1}, {1, 9}, {1, 9}, {1, 0}}, 2) == Cut{0, 0, 0, 1, 1, 1});
  CHECK(join_short_items({{1, 9}, {1, 1}, {1, 9}, {1, 9}, {1, 9}, {1, 0}}, 2) == Cut{0, 0, 1, 1, 1, 2});
  CHECK(join_short_items({{1, 1}, {9, 1}, {1, 1}, {1, 0}}, 4) == Cut{0, 1, 2, 2});
  CHECK(join_short_items({{0, 1}, {0, 0}}, 4) == Cut{0, 0});
  CHECK(join_short_items({}, 4).empty());
}

TEST_CASE("join_short_items: no stretch is longer than a part, but for an item that is") {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<LineItem> line(1 + random() % 60);
    for (LineItem& item : line) item = {static_cast<double>(random() % 20), static_cast<int64_t>(random() % 50)};
    double total = 0;
    for (const LineItem& item : line) total += item.time;
    const int parts = 1 + static_cast<int>(random() % 12);
    const Cut found = join_short_items(line, parts);
    REQUIRE(found.size() == line.size());
    CHECK(found.front() == 0);
    std::vector<double> times(line.size(), 0);
    std::vector<int> items(line.size(), 0);
    for (size_t i = 0; i < line.size(); ++i) {
      if (i > 0) CHECK((found[i] == found[i - 1] || found[i] == found[i - 1] + 1));
      times[static_cast<size_t>(found[i])] += line[i].time;
      ++items[static_cast<size_t>(found[i])];
    }
    for (size_t s = 0; s < line.size(); ++s) CHECK((items[s] < 2 || times[s] <= total / parts + 1e-9));
  }
}

// Stages on places of unequal sizes: as good as trying all cuts on all ranks.
#include "passes/pipelining/placed_stages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

using namespace weftc;

namespace {

using Stages = std::vector<PlacedStage>;

const PlaceChoice& choice_of(const PlacedLine& line, int ranks) {
  return *std::ranges::find(line.choices, ranks, &PlaceChoice::ranks);
}

/// Calls use(stages) for every cut whose stages have the memory that they need, on all ranks.
void for_each_cut(const PlacedLine& line, Stages stages, const std::function<void(const Stages&)>& use) {
  const int begin = stages.empty() ? 0 : stages.back().end;
  int ranks = 0;
  for (const PlacedStage& stage : stages) ranks += stage.ranks;
  if (begin == line.cells() && ranks == line.ranks) use(stages);
  for (const PlaceChoice& choice : line.choices)
    for (int end = begin + 1; end <= line.cells() && ranks + choice.ranks <= line.ranks; ++end) {
      int64_t bytes = 0;
      for (int cell = begin; cell < end; ++cell) bytes += choice.bytes[static_cast<size_t>(cell)];
      if (line.memory > 0 && bytes > line.memory) break;
      Stages more = stages;
      more.push_back({begin, end, choice.ranks});
      for_each_cut(line, std::move(more), use);
    }
}

/// A stage's time to compute, and to receive values in sequence.
std::pair<double, double> seconds_of(const PlacedLine& line, const PlacedStage& stage, int first) {
  const auto is_here = [&](int cell) { return stage.begin <= cell && cell < stage.end; };
  double computing = 0, received = 0;
  for (int cell = stage.begin; cell < stage.end; ++cell)
    computing += choice_of(line, stage.ranks).seconds[static_cast<size_t>(cell)];
  for (const CellValue& value : line.values)
    if (!is_here(value.from) && std::ranges::any_of(value.to, is_here)) received += static_cast<double>(value.bytes);
  const int next = first + stage.ranks;
  const double before = first > 0 ? line.link[static_cast<size_t>(first)] : 0;
  const double after = next < line.ranks ? line.link[static_cast<size_t>(next)] : 0;
  return {computing, received * std::max(before, after)};
}

/// The measured times of stages in a row: each begins when the previous one has ended.
PlacedStages measured(const PlacedLine& line, const Stages& stages) {
  PlacedStages made{stages};
  int first = 0;
  for (const PlacedStage& stage : stages) {
    const auto [computing, received] = seconds_of(line, stage, first);
    made.fill += computing + received;
    made.period = std::max({made.period, computing, received});
    first += stage.ranks;
  }
  return made;
}

PlacedLine random_line(std::mt19937& random) {
  const auto roll = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  PlacedLine line;
  line.ranks = 1 + roll(6);
  const int cells = 1 + roll(6);
  for (int ranks = 1; ranks <= line.ranks; ++ranks) {
    if (ranks > 1 && roll(3) == 0) continue;
    PlaceChoice choice{ranks, {}, {}};
    for (int cell = 0; cell < cells; ++cell) {
      choice.seconds.push_back((1 + roll(20)) / std::pow(ranks, 0.2 * roll(6)));
      choice.bytes.push_back(roll(100) / ranks);
    }
    line.choices.push_back(std::move(choice));
  }
  for (int cell = 0; cell + 1 < cells; ++cell)  // a line: each cell reads the previous one
    line.values.push_back({cell, {cell + 1}, 1 + roll(9)});
  if (cells > 2) line.values.push_back({cells - 1, {roll(cells - 1)}, roll(5)});  // a derivative
  if (cells > 2) line.values.push_back({0, {1 + roll(cells - 1), cells - 1}, roll(5)});
  for (int rank = 0; rank < line.ranks; ++rank) line.link.push_back(rank == 0 ? 0 : 0.2 * roll(8));
  if (roll(2) == 0) line.memory = 60 + roll(200);
  return line;
}

}  // namespace

TEST_CASE("stages on unequal places: as good as trying all cuts") {
  std::mt19937 random(1);
  int uneven = 0, none = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const PlacedLine line = random_line(random);
    const std::vector<PlacedStages> found = place_stages(line);
    for (const PlacedStages& placed : found) {
      const PlacedStages again = measured(line, placed.stages);
      CHECK(placed.period == doctest::Approx(again.period));
      CHECK(placed.fill <= again.fill * (1 + 1e-9));
    }
    for (const int micro_batches : {1, 2, 5, 64}) {
      double best = INFINITY, best_found = INFINITY;
      for_each_cut(line, {},
                   [&](const Stages& stages) { best = std::min(best, measured(line, stages).seconds(micro_batches)); });
      for (const PlacedStages& placed : found) {
        if (placed.seconds(micro_batches) < best_found) uneven += placed.are_even() ? 0 : 1;
        best_found = std::min(best_found, placed.seconds(micro_batches));
      }
      none += found.empty() ? 1 : 0;
      CHECK(found.empty() == std::isinf(best));
      if (!found.empty()) CHECK(best_found <= 1.006 * best);
    }
  }
  CHECK(uneven > 100);
  CHECK(none > 0);
}

TEST_CASE("stages on unequal places: a heavy end gets more ranks, branches run beside each other") {
  PlacedLine line;
  line.ranks = 3;
  line.choices = {{1, {4, 4, 16}, {0, 0, 0}}, {2, {2, 2, 8}, {0, 0, 0}}, {3, {2, 2, 6}, {0, 0, 0}}};
  line.values = {{0, {1}, 1}, {1, {2}, 1}};
  line.link = {0, 0.1, 0.1};
  const auto best_of = [](const std::vector<PlacedStages>& found, int micro_batches) {
    return *std::ranges::min_element(found, {}, [&](const auto& placed) { return placed.seconds(micro_batches); });
  };
  const PlacedStages heavy = best_of(place_stages(line), 8);
  REQUIRE(heavy.stages.size() == 2);
  CHECK((heavy.stages[0].end == 2 && heavy.stages[0].ranks == 1 && heavy.stages[1].ranks == 2));
  CHECK(heavy.period == 8);
  CHECK(heavy.fill == doctest::Approx(16.1));
  for (const PlacedStages& placed : place_even_stages(line)) CHECK(placed.are_even());
  CHECK(best_of(place_even_stages(line), 8).seconds(8) > heavy.seconds(8));
  line.values = {{0, {2}, 1}, {1, {2}, 1}};  // two towers
  line.choices = {{1, {4, 4, 1}, {0, 0, 0}}};
  const PlacedStages towers = best_of(place_stages(line), 1);
  REQUIRE(towers.stages.size() == 3);
  CHECK(towers.fill == doctest::Approx(5.2));
}

TEST_CASE("stages on unequal places: cells that take nothing, and no choices") {
  PlacedLine line;
  CHECK(place_stages(line).empty());
  line.values = {{0, {1}, 8}};  // of a model that no rank has the memory for
  CHECK(place_stages(line).empty());
  line.choices = {{1, {0, 0}, {0, 0}}};
  line.link = {0};
  REQUIRE(place_stages(line).size() == 1);
  CHECK(place_stages(line).front().seconds(4) == 0);
}

// Choices for nodes against all that there are.
#include <doctest/doctest.h>

#include <random>

#include "passes/partition/elimination.h"
#include "passes/partition/reduction.h"
#include "passes/partition/solve.h"
#include "test/effort.h"

using namespace weftc;

namespace {

PartitionProblem random_problem(uint32_t seed, bool has_memory) {
  std::mt19937 random(seed);
  PartitionProblem problem;
  const int nodes = 2 + static_cast<int>(random() % 6);
  for (int n = 0; n < nodes; ++n) {
    PartitionProblem::Node node;
    node.first = random() % 3, node.last = node.first + 1 + random() % 3;
    for (size_t c = 1 + random() % 4; c-- > 0;) {
      node.costs.push_back(random() % 20);
      if (has_memory) node.usage.push_back(random() % 10);
    }
    problem.nodes.push_back(node);
  }
  for (int a = 0; a < nodes; ++a)
    for (int b = 0; b < nodes; ++b) {
      if (a == b || random() % 3 != 0) continue;
      PartitionProblem::Edge edge{a, b, {}};
      const size_t count =
          problem.nodes[static_cast<size_t>(a)].costs.size() * problem.nodes[static_cast<size_t>(b)].costs.size();
      for (size_t i = 0; i < count; ++i) edge.costs.push_back(random() % 30);
      problem.edges.push_back(edge);
    }
  if (has_memory) problem.limit = 4 * nodes / 2 + static_cast<int64_t>(random() % 8);
  return problem;
}

/// The least cost of all choices that keep the limit; -1: none does.
int64_t least_of_all(const PartitionProblem& problem) {
  std::vector<int> choices(problem.nodes.size(), 0);
  int64_t least = -1;
  for (;;) {
    if (peak_usage(problem, choices) <= problem.limit)
      if (const int64_t cost = cost_of(problem, choices); least < 0 || cost < least) least = cost;
    size_t at = 0;
    while (at < choices.size() && ++choices[at] == static_cast<int>(problem.nodes[at].costs.size())) choices[at++] = 0;
    if (at == choices.size()) return least;
  }
}

}  // namespace

TEST_CASE("partition: without memory each optimum is found and proved") {
  for (uint32_t seed = 1; seed <= static_cast<uint32_t>(random_cases(2000)); ++seed) {
    CAPTURE(seed);
    const PartitionProblem problem = random_problem(seed, false);
    const PartitionSolution solution = solve_partition(problem, 10);
    REQUIRE(solution.choices.size() == problem.nodes.size());
    CHECK(cost_of(problem, solution.choices) == solution.cost);
    CHECK(solution.cost == least_of_all(problem));
    CHECK(solution.is_proved());
  }
}

TEST_CASE("partition: with memory the limit holds, no bound is too high, and most optima are found") {
  int found = 0, best = 0, possible = 0;
  for (uint32_t seed = 1; seed <= static_cast<uint32_t>(random_cases(2000)); ++seed) {
    CAPTURE(seed);
    const PartitionProblem problem = random_problem(seed, true);
    const int64_t least = least_of_all(problem);
    const PartitionSolution solution = solve_partition(problem, 10);
    possible += least >= 0;
    if (least >= 0) CHECK(solution.lower_bound <= least);
    if (solution.choices.empty()) continue;
    ++found;
    CHECK(least >= 0);
    CHECK(peak_usage(problem, solution.choices) <= problem.limit);
    CHECK(cost_of(problem, solution.choices) == solution.cost);
    CHECK(solution.cost >= least);
    best += solution.cost == least;
    if (solution.is_proved()) CHECK(solution.cost == least);
  }
  MESSAGE(possible << " have a solution, " << found << " were found, " << best << " of them the best");
  CHECK(found * 100 >= possible * 97);
  CHECK(best * 100 >= possible * 60);
}

TEST_CASE("partition: choices that are dropped are never needed") {
  size_t dropped = 0;
  for (uint32_t seed = 1; seed <= static_cast<uint32_t>(random_cases(1000)); ++seed) {
    CAPTURE(seed);
    const PartitionProblem problem = random_problem(seed, seed % 2 == 0);
    const ReducedProblem reduced = reduce(problem);
    for (size_t n = 0; n < problem.nodes.size(); ++n) dropped += problem.nodes[n].costs.size() - reduced.kept[n].size();
    CHECK(least_of_all(reduced.problem) == least_of_all(problem));
  }
  CHECK(dropped > 500);
}

TEST_CASE("partition: regions find a good choice where tables for all nodes are too large") {
  // A grid of 24 x 24 nodes, as wide as no table may be; the best choice of all nodes is the same one.
  PartitionProblem problem;
  constexpr int kSide = 24, kChoices = 4;
  for (int n = 0; n < kSide * kSide; ++n) problem.nodes.push_back({0, 0, {3, 2, 2, 2}, {}});
  const auto join = [&](int a, int b) {
    PartitionProblem::Edge edge{a, b, {}};
    for (int i = 0; i < kChoices; ++i)
      for (int j = 0; j < kChoices; ++j) edge.costs.push_back(i == j ? (i == 0 ? 0 : 1) : 2);
    problem.edges.push_back(edge);
  };
  for (int y = 0; y < kSide; ++y)
    for (int x = 0; x < kSide; ++x) {
      if (x + 1 < kSide) join(y * kSide + x, y * kSide + x + 1);
      if (y + 1 < kSide) join(y * kSide + x, (y + 1) * kSide + x);
    }
  const PartitionSolution solution = solve_partition(problem, 60);
  CHECK(solution.cost == 3 * kSide * kSide);
}

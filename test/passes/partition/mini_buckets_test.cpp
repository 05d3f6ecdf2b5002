// Bounds of elimination beside all choices: exact with large tables, never too high with small ones.
#include "passes/partition/mini_buckets.h"

#include <doctest/doctest.h>

#include <random>

#include "passes/partition/beam_search.h"
#include "test/effort.h"

using namespace weftc;

namespace {

PartitionProblem dense_problem(uint32_t seed) {
  std::mt19937 random(seed);
  PartitionProblem problem;
  for (int n = 0; n < 6; ++n) problem.nodes.push_back({0, 1, {0, int64_t(random() % 9), int64_t(random() % 9)}, {}});
  for (int a = 0; a < 6; ++a)
    for (int b = a + 1; b < 6; ++b) {
      if (random() % 4 == 0) continue;
      problem.edges.push_back({a, b, {}});
      for (int i = 0; i < 9; ++i) problem.edges.back().costs.push_back(random() % 20);
    }
  return problem;
}

double least_of_dense(const PartitionProblem& problem) {
  int64_t least = INT64_MAX;
  for (int code = 0; code < 729; ++code) {
    std::vector<int> choices;
    for (int n = 0, rest = code; n < 6; ++n, rest /= 3) choices.push_back(rest % 3);
    least = std::min(least, cost_of(problem, choices));
  }
  return static_cast<double>(least);
}

}  // namespace

TEST_CASE("mini-buckets: bounds and the beam that they guide") {
  int divided = 0;
  for (uint32_t seed = 1; seed <= static_cast<uint32_t>(random_cases(200)); ++seed) {
    CAPTURE(seed);
    const PartitionProblem problem = dense_problem(seed);
    const SearchGraph graph{ReducedProblem(problem)};
    std::vector<int> place(6, -1);
    const Region region(graph, Assignment(graph, std::vector<int>(6, 0)), {0, 1, 2, 3, 4, 5}, place);
    SearchBudget unlimited(1e18, [] { return false; });
    const double least = least_of_dense(problem);
    MiniBuckets exact(region, 1e6), coarse(region, 9);
    CHECK(exact.bound(region.costs, unlimited) == least);
    const double bound = coarse.bound(region.costs, unlimited);
    CHECK(bound <= least + 1e-9);
    divided += bound < least - 1e-9;
    std::mt19937_64 random(seed);
    const BeamResult all = search_beam(coarse, region, bound, {1000, 1e9, true}, random, unlimited);
    REQUIRE(!all.found.empty());
    CHECK(all.is_complete);
    CHECK(all.found[0].cost == doctest::Approx(least));
  }
  CHECK(divided > 0);
}

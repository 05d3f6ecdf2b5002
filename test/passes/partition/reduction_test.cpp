// The result of each rule of the reduction.
#include "passes/partition/reduction.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace weftc;

namespace {

constexpr int64_t kNo = kForbiddenCost;

int nodes_left(const PartitionProblem& problem) {
  ReducedProblem reduced(problem);
  reduce(reduced);
  CHECK(!reduced.is_infeasible);
  return static_cast<int>(
      std::count_if(reduced.nodes.begin(), reduced.nodes.end(), [](const auto& n) { return n.is_alive; }));
}

/// Two choices, each cheaper at a time: memory decides, so that no choice is dominated.
PartitionProblem::Node undecided(int64_t first, int64_t last) { return {first, last, {0, 9}, {9, 0}}; }

}  // namespace

TEST_CASE("reduction: a node that another decides is contracted, and the choices come back") {
  PartitionProblem problem;
  problem.limit = 9;
  problem.nodes = {undecided(0, 2), undecided(1, 3), {0, 0, {1, 1, 1}, {0, 0, 0}}};
  problem.edges = {{2, 0, {kNo, 4, kNo, 4, 4, kNo}}, {0, 1, {3, 0, 0, 3}}};
  ReducedProblem reduced(problem);
  reduce(reduced);
  CHECK(nodes_left(problem) == 2);
  const std::vector<int> choices = reduced.expand({1, 0, 0});
  CHECK(choices[0] == 1);
  CHECK(cost_of(problem, choices) < kForbiddenCost);
}

TEST_CASE("reduction: counter-case: forbidden pairs that leave two choices") {
  PartitionProblem problem;
  problem.limit = 9;
  problem.nodes = {undecided(0, 2), undecided(1, 3)};
  problem.edges = {{0, 1, {kNo, 0, 0, 0}}};
  CHECK(nodes_left(problem) == 2);
}

TEST_CASE("reduction: an edge that is a sum of two costs is dropped, and a dominated choice") {
  PartitionProblem problem;
  problem.nodes = {{0, 1, {4, 1}, {1, 1}}, {0, 1, {2, 5}, {1, 1}}};
  problem.edges = {{0, 1, {1, 2, 3, 4}}};
  ReducedProblem reduced(problem);
  reduce(reduced);
  CHECK(nodes_left(problem) == 0);
  CHECK(reduced.base_cost == 1 + 2 + 3);
}

TEST_CASE("reduction: a cheap choice that takes more memory stays") {
  PartitionProblem problem;
  problem.limit = 10;
  problem.nodes = {undecided(0, 2), undecided(1, 3)};
  CHECK(nodes_left(problem) == 2);
  problem.limit = 18;  // there is room for both
  CHECK(nodes_left(problem) == 0);
}

TEST_CASE("reduction: no choice goes with any of a neighbour") {
  PartitionProblem problem;
  problem.nodes = {{0, 1, {0, 0}, {}}, {0, 1, {0, 0}, {}}};
  problem.edges = {{0, 1, {kNo, kNo, kNo, kNo}}};
  ReducedProblem reduced(problem);
  reduce(reduced);
  CHECK(reduced.is_infeasible);
}

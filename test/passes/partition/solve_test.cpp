// Choices for nodes beside all that there are.
#include "passes/partition/solve.h"

#include <doctest/doctest.h>

#include <random>

#include "test/effort.h"

using namespace weftc;

namespace {

struct ProblemKind {
  bool has_memory = false, forbids = false;
};

int64_t partition_cost(std::mt19937& random, bool forbids, uint32_t most) {
  return forbids && random() % 3 == 0 ? kForbiddenCost : random() % most;
}

PartitionProblem random_partition_problem(uint32_t seed, const ProblemKind& kind) {
  std::mt19937 random(seed);
  PartitionProblem problem;
  const int nodes = 2 + static_cast<int>(random() % 7);
  for (int n = 0; n < nodes; ++n) {
    PartitionProblem::Node node;
    node.first = random() % 4, node.last = node.first + random() % 4;
    for (size_t c = 1 + random() % 4; c-- > 0;) {
      node.costs.push_back(partition_cost(random, false, 20));
      if (kind.has_memory) node.usage.push_back(random() % 10);
    }
    problem.nodes.push_back(node);
  }
  for (int a = 0; a < nodes; ++a)
    for (int b = 0; b < nodes; ++b) {
      if (random() % 3 != 0) continue;
      PartitionProblem::Edge edge{a, b, {}};
      const size_t count = problem.nodes[a].costs.size() * problem.nodes[b].costs.size();
      for (size_t i = 0; i < count; ++i) edge.costs.push_back(partition_cost(random, kind.forbids && a != b, 30));
      problem.edges.push_back(edge);
    }
  if (kind.has_memory) problem.limit = nodes + static_cast<int64_t>(random() % 12);
  return problem;
}

/// The least cost of all choices that keep the limit and have no forbidden pair; -1: no choice does.
int64_t least_of_all_choices(const PartitionProblem& problem) {
  std::vector<int> choices(problem.nodes.size(), 0);
  int64_t least = -1;
  for (;;) {
    const int64_t cost = cost_of(problem, choices);
    if (cost < kForbiddenCost && peak_usage(problem, choices) <= problem.limit && (least < 0 || cost < least))
      least = cost;
    size_t at = 0;
    while (at < choices.size() && ++choices[at] == static_cast<int>(problem.nodes[at].costs.size())) choices[at++] = 0;
    if (at == choices.size()) return least;
  }
}

void compare_with_all_choices(const ProblemKind& kind, int cases) {
  int possible = 0, impossible = 0;
  for (uint32_t seed = 1; seed <= static_cast<uint32_t>(random_cases(cases)); ++seed) {
    CAPTURE(seed);
    const PartitionProblem problem = random_partition_problem(seed, kind);
    const PartitionSolution solution = solve_partition(problem, {60, {1, seed}});
    const int64_t least = least_of_all_choices(problem);
    ++(least < 0 ? impossible : possible);
    CHECK(solution.is_impossible == (least < 0));
    CHECK(solution.choices.empty() == (least < 0));
    if (least < 0 || solution.choices.empty()) continue;
    CHECK(solution.cost == least);
    CHECK(solution.lower_bound == least);
    CHECK(cost_of(problem, solution.choices) == least);
    CHECK(peak_usage(problem, solution.choices) <= problem.limit);
  }
  CHECK(possible > 0);
  CHECK((impossible > 0) == (kind.has_memory || kind.forbids));
}

/// A chain of layers that are alike, with two weights each that take memory to the end.
PartitionProblem layers(int count, int64_t limit) {
  PartitionProblem problem;
  std::mt19937 random(7);
  const auto add = [&](int64_t first, int64_t last, std::vector<int64_t> costs, std::vector<int64_t> usage) {
    problem.nodes.push_back({first, last, std::move(costs), std::move(usage)});
    return static_cast<int>(problem.nodes.size()) - 1;
  };
  int before = -1;
  for (int layer = 0; layer < count; ++layer) {
    const int weight = add(layer, 2 * count, {0, 3, 5}, {16, 4, 1});
    const int product = add(layer, layer + 2, {4, 2, 1}, {8, 4, 2});
    problem.edges.push_back({weight, product, {0, 2, 4, 3, 0, 2, 6, 3, 0}});
    if (before >= 0) problem.edges.push_back({before, product, {0, 5, 7, 5, 0, 3, 7, 3, 0}});
    before = product;
  }
  problem.limit = limit;
  return problem;
}

/// Each node beside many others, and memory for a part of what the cheapest choices take.
PartitionProblem wide_problem(int count) {
  PartitionProblem problem;
  std::mt19937 random(5);
  const auto below = [&](uint32_t end) { return static_cast<int64_t>(random() % end); };
  for (int n = 0; n < count; ++n) problem.nodes.push_back({0, 1, {0, below(50), below(50)}, {9, 4, below(3)}});
  for (int a = 0; a < count; ++a)
    for (int b = a + 1; b < count; ++b) {
      if (below(6) != 0) continue;
      problem.edges.push_back({a, b, {}});
      for (int i = 0; i < 9; ++i) problem.edges.back().costs.push_back(below(100));
    }
  problem.limit = int64_t{4} * count;
  return problem;
}

}  // namespace

TEST_CASE("partition: each optimum is found and proved") { compare_with_all_choices({false, false}, 1000); }

TEST_CASE("partition: optima beside forbidden pairs are found and proved, and that there is none") {
  compare_with_all_choices({false, true}, 1000);
}

TEST_CASE("partition: optima within a limit of memory are found and proved, and that there is none") {
  compare_with_all_choices({true, false}, 1000);
  compare_with_all_choices({true, true}, 1000);
}

TEST_CASE("partition: some of the choices cost and use what they do among all") {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    const PartitionProblem problem = random_partition_problem(seed, {true, true});
    std::mt19937 random(seed);
    std::vector<std::vector<int>> left;
    for (const PartitionProblem::Node& node : problem.nodes) {
      std::vector<int>& of_node = left.emplace_back();
      for (int c = static_cast<int>(node.costs.size()); c-- > 0;)
        if (random() % 2 == 0 || (c == 0 && of_node.empty())) of_node.push_back(c);
    }
    const PartitionProblem some = with_choices(problem, left);
    std::vector<int> picks, choices;
    for (const std::vector<int>& of_node : left) {
      picks.push_back(static_cast<int>(random() % of_node.size()));
      choices.push_back(of_node[static_cast<size_t>(picks.back())]);
    }
    CHECK(cost_of(some, picks) == cost_of(problem, choices));
    CHECK(peak_usage(some, picks) == peak_usage(problem, choices));
    CHECK(some.limit == problem.limit);
  }
}

TEST_CASE("partition: a chain is solved exactly, and memory raises its cost") {
  const PartitionProblem free = layers(40, INT64_MAX), tight = layers(40, 300);
  const PartitionSolution cheap = solve_partition(free, {60, {}});
  CHECK(cheap.is_proved());
  const PartitionSolution small = solve_partition(tight, {1, {}});
  REQUIRE(!small.choices.empty());
  CHECK(peak_usage(free, cheap.choices) > 300);
  CHECK(peak_usage(tight, small.choices) <= 300);
  CHECK(small.cost > cheap.cost);
  CHECK(small.lower_bound <= small.cost);
  CHECK(small.lower_bound > cheap.cost);
}

TEST_CASE("partition: the same seed gives the same choices") {
  const PartitionProblem problem = layers(12, INT64_MAX);
  CHECK(solve_partition(problem, {60, {1, 3}}).choices == solve_partition(problem, {60, {1, 3}}).choices);
}

TEST_CASE("partition: work ends a search that proves nothing, at the same choices each time") {
  const PartitionProblem problem = wide_problem(70);
  PartitionEffort effort;
  effort.search.work = 1e7;
  const PartitionSolution first = solve_partition(problem, effort);
  REQUIRE(!first.choices.empty());
  CHECK(!first.is_proved());
  CHECK(solve_partition(problem, effort).choices == first.choices);
}

TEST_CASE("partition: a problem without nodes, and one of single choices") {
  PartitionProblem problem;
  CHECK(solve_partition(problem, {1, {}}).cost == 0);
  problem.nodes = {{0, 1, {5}, {1}}, {0, 1, {6}, {1}}};
  problem.edges = {{0, 1, {7}}};
  problem.limit = 2;
  CHECK(solve_partition(problem, {1, {}}).cost == 18);
  CHECK(solve_partition(problem, {1, {}}).is_proved());
  problem.limit = 1;
  CHECK(solve_partition(problem, {1, {}}).is_impossible);
}

// Ranks share the cores of a machine in order, one for each thread.
#include "runtime_lib/src/cores.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "runtime_lib/src/failure.h"
#include "weft/team.h"

using namespace weft;

TEST_CASE("cores: ranks take them in order") {
  const std::vector<int> cores = {0, 2, 4, 6, 8, 10};
  CHECK(cores_of(cores, {.rank = 0, .ranks = 3}, 2) == std::vector{0, 2});
  CHECK(cores_of(cores, {.rank = 2, .ranks = 3}, 2) == std::vector{8, 10});
  CHECK(cores_of(cores, {}, 6) == cores);
  CHECK_THROWS_AS(cores_of(cores, {.rank = 3, .ranks = 4}, 2), Failure);
  CHECK_THROWS_AS(cores_of(cores, {}, 7), Failure);
}

TEST_CASE("cores: threads are a rank's share of them, one at least") {
  CHECK(default_threads(8, {.rank = 0, .ranks = 2}) == 4);
  CHECK(default_threads(7, {.rank = 1, .ranks = 2}) == 3);
  CHECK(default_threads(2, {.rank = 0, .ranks = 5}) == 1);
}

TEST_CASE("cores: a team's threads keep to theirs, and the caller keeps its own") {
  const std::vector<int> allowed = allowed_cores();
  REQUIRE(!allowed.empty());
  const std::vector<int> cores = {allowed.front(), allowed.back(), allowed.front()};
  std::vector<std::vector<int>> seen(3);
  std::thread([&] {
    keep_to(std::span(cores).first(1));
    Team team(3, cores.data());
    std::atomic<int> begun{0};
    team.parallel(3, 1, [&](int64_t, int64_t) {
      seen[size_t(begun++)] = allowed_cores();
      while (begun < 3) std::this_thread::yield();
    });
  }).join();
  std::sort(seen.begin(), seen.end());
  std::vector<std::vector<int>> wanted = {{cores[0]}, {cores[1]}, {cores[2]}};
  std::sort(wanted.begin(), wanted.end());
  CHECK(seen == wanted);
  CHECK(allowed_cores() == allowed);
}

TEST_CASE("cores: one that there is not cannot be taken") {
  const std::vector<int> none = {CPU_SETSIZE - 1};
  if (allowed_cores().back() != none[0]) CHECK_THROWS_AS(keep_to(none), Failure);
}

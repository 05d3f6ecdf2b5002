// Parallel loops cover every item once, whatever their size, one after another and inside each other.
#include "weft/team.h"

#include <doctest/doctest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

namespace {

std::atomic<bool> is_held{false}, may_go_on{false};

/// Keeps a thread in its handler of the signal until `may_go_on`, at most two seconds.
void hold(int) {
  is_held = true;
  const auto start = std::chrono::steady_clock::now();
  while (!may_go_on && std::chrono::steady_clock::now() - start < std::chrono::seconds(2)) {
  }
  is_held = false;
}

/// The thread that takes one of two items while the owner has the other.
pthread_t worker_of(weft::Team& team) {
  const pthread_t owner = pthread_self();
  pthread_t worker = owner;
  std::atomic<int> begun{0};
  team.parallel(2, 1, [&](int64_t, int64_t) {
    ++begun;
    while (begun < 2) std::this_thread::yield();
    if (!pthread_equal(pthread_self(), owner)) worker = pthread_self();
  });
  return worker;
}

}  // namespace

TEST_CASE("team: every item once") {
  for (const int threads : {1, 2, 5}) {
    weft::Team team(threads);
    for (const int64_t count : {0, 1, 7, 64, 1000})
      for (const int64_t grain : {1, 3, 64}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
        team.parallel(count, grain, [&](int64_t begin, int64_t end) {
          CHECK(begin % grain == 0);
          for (int64_t i = begin; i < end; ++i) ++seen[size_t(i)];
        });
        for (const auto& n : seen) REQUIRE(n == 1);
      }
  }
}

TEST_CASE("team: a thread begins with the same part of each loop, and takes what others left") {
  weft::Team team(2);
  const pthread_t owner = pthread_self();
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> begun{0};
    std::atomic<bool> is_first[2] = {true, true};
    int64_t first[2] = {-1, -1};
    std::atomic<int64_t> seen{0};
    team.parallel(64, 1, [&](int64_t begin, int64_t end) {
      seen += end - begin;
      const int thread = pthread_equal(pthread_self(), owner) ? 0 : 1;
      if (!is_first[thread].exchange(false)) return;
      first[thread] = begin;
      ++begun;
      while (begun < 2) std::this_thread::yield();
    });
    CHECK(seen == 64);
    CHECK(first[0] == 0);
    CHECK(first[1] == 32);
  }
  // The worker holds its first item until all others are done: the owner takes the rest of the worker's share.
  std::atomic<int> done{0};
  std::atomic<bool> is_inside{false};
  team.parallel(64, 1, [&](int64_t begin, int64_t end) {
    if (!pthread_equal(pthread_self(), owner)) {
      is_inside = true;
      while (done < 64 - int(end - begin)) std::this_thread::yield();
    } else {
      while (!is_inside) std::this_thread::yield();
    }
    done += int(end - begin);
  });
  CHECK(done == 64);
}

TEST_CASE("team: many short loops, and loops inside a loop") {
  weft::Team team(3);
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 2000; ++round)
    team.parallel(8, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  CHECK(sum == 16000);
  team.parallel(4, 1, [&](int64_t outer_begin, int64_t outer_end) {
    for (int64_t i = outer_begin; i < outer_end; ++i)
      team.parallel(10, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  });
  CHECK(sum == 16040);
}

TEST_CASE("team: what a loop body throws comes out of the loop, and the team goes on") {
  for (const int threads : {1, 3}) {
    weft::Team team(threads);
    for (int round = 0; round < 20; ++round)
      CHECK_THROWS_AS(team.parallel(64, 1,
                                    [](int64_t, int64_t end) {
                                      if (end > 8) throw end;
                                    }),
                      int64_t);
    std::atomic<int64_t> sum{0};
    team.parallel(64, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
    CHECK(sum == 64);
  }
}

TEST_CASE("team: a loop does not wait for a worker that has no core") {
  weft::Team team(2);
  const pthread_t worker = worker_of(team);
  REQUIRE(!pthread_equal(worker, pthread_self()));
  const auto before = std::signal(SIGUSR1, hold);
  pthread_kill(worker, SIGUSR1);
  while (!is_held) std::this_thread::yield();
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 3; ++round) team.parallel(64, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  CHECK(is_held);
  CHECK(sum == 3 * 64);
  may_go_on = true;
  while (is_held) std::this_thread::yield();
  std::signal(SIGUSR1, before);
  team.parallel(64, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  CHECK(sum == 4 * 64);
}

// Ranks as threads of the test: each runs a function on its streams, over windows and flags of the given size.
#pragma once
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <functional>
#include <thread>
#include <vector>

#include "runtime_lib/src/rank.h"

namespace weft_test {

using Body = std::function<void(weft::Rank&)>;

struct Ranks {
  int count = 2;
  int64_t own_bytes = 4 << 20, window_bytes = 4 << 20;
  int signals = 64, streams = 1, iterations = 1;
  double timeout = 20;
  weft::LinkSpeed link = {};
};

inline const Body*& current_body() {  // a program's run is a plain function
  static const Body* body = nullptr;
  return body;
}

/// Runs `body` on every stream of every rank; the exit code.
inline int run_ranks(const Ranks& ranks, const Body& body) {
  current_body() = &body;
  static constexpr weft::Stream kStreams[] = {{"first", true}, {"second"}, {"third"}};
  const weft::Program program{.streams = std::span(kStreams).first(size_t(ranks.streams)),
                              .own_bytes = ranks.own_bytes,
                              .window_bytes = ranks.window_bytes,
                              .signals = ranks.signals,
                              .run = [](weft::Rank& r) { (*current_body())(r); }};
  const weft::Executable executable{.name = "test", .world = ranks.count, .programs = {&program, 1}};
  const weft::WorldShape shape{ranks.count, ranks.streams, ranks.signals, ranks.window_bytes, 0};
  const size_t bytes = size_t(weft::World::bytes_of(shape));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  weft::World world(shape, static_cast<char*>(memory));
  const auto run_rank = [&](int number) {
    try {
      weft::RankState state(executable, program, world, number, nullptr, "",
                            {.threads = 2, .timeout = ranks.timeout, .in_process = true, .link = ranks.link});
      for (int i = 0; i < ranks.iterations; ++i) state.iterate();
    } catch (const weft::Failure& failure) {
      weft::report_failure("test", world, number, failure);
    }
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks.count; ++r) threads.emplace_back(run_rank, r);
  for (std::thread& thread : threads) thread.join();
  const int code = world.failure();
  munmap(memory, bytes);
  return code;
}

}  // namespace weft_test

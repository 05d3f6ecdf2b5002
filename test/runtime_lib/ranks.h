// Ranks as threads of the test: each runs a function on its streams, over windows and flags of the given size.
#pragma once
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "runtime_lib/src/rank.h"
#include "thread_network.h"

namespace weft_test {

using Body = std::function<void(weft::Rank&)>;

struct Ranks {
  int count = 2;
  int64_t own_bytes = 4 << 20, window_bytes = 4 << 20;
  int signals = 64, streams = 1, iterations = 1;
  double timeout = 20;
  weft::LinkSpeed link = {};
  bool apart = false;                                       // each has a memory of its own, and they send messages
  std::function<void(const weft::RankState&)> traced = {};  // called with each rank and its trace at the end
};

/// The memory of all ranks, or of one that is apart.
struct Segment {
  explicit Segment(const weft::WorldShape& shape)
      : bytes(size_t(weft::World::bytes_of(shape))),
        memory(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        world(shape, static_cast<char*>(memory)) {}
  ~Segment() { munmap(memory, bytes); }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const size_t bytes;
  void* const memory;
  weft::World world;
  std::unique_ptr<ThreadNetwork> network = nullptr;
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
  std::vector<std::unique_ptr<Segment>> segments;
  Post post;
  for (int r = 0; r < (ranks.apart ? ranks.count : 1); ++r) {
    segments.push_back(std::make_unique<Segment>(shape));
    weft::World& world = segments.back()->world;
    post.worlds.push_back(&world);
    if (!ranks.apart) continue;
    segments.back()->network = std::make_unique<ThreadNetwork>(post, r);
    world.relay = segments.back()->network.get();
  }
  const auto run_rank = [&](int number) {
    weft::World& world = *post.worlds[ranks.apart ? size_t(number) : 0];
    try {
      weft::RankState state(executable, program, world, number, nullptr, "",
                            {.threads = 2,
                             .timeout = ranks.timeout,
                             .trace = ranks.traced != nullptr,
                             .in_process = true,
                             .link = ranks.link});
      for (int i = 0; i < ranks.iterations; ++i) state.iterate();
      if (ranks.traced) ranks.traced(state);
    } catch (const weft::Failure& failure) {
      weft::report_failure("test", world, number, failure);
    }
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks.count; ++r) threads.emplace_back(run_rank, r);
  for (std::thread& thread : threads) thread.join();
  return post.worlds.front()->failure();
}

/// The same with a memory that the ranks share, and with messages between them.
inline int run_both_ways(Ranks ranks, const Body& body) {
  const int together = run_ranks(ranks, body);
  ranks.apart = true;
  const int apart = run_ranks(ranks, body);
  return together != 0 ? together : apart;
}

}  // namespace weft_test

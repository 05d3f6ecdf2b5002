// Ranks of cuda programs as threads of the test, over the emulation: each runs a function that issues steps.
#pragma once
#include <cuda_runtime.h>
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "runtime_lib/src/rank_base.h"
#include "weft/cuda.h"

namespace weft_test {

using Body = std::function<void(weft::Rank&)>;
// CHECK is not for many threads at once: ranks count what is wrong.
using Wrong = std::atomic<int64_t>;

struct Ranks {
  int count = 2;
  int64_t own_bytes = 1 << 20, window_bytes = 1 << 20;
  int signals = 64, streams = 1, iterations = 1;
  double timeout = 20;
  bool graph = true;
};

inline const Body*& current_body() {  // a program's run is a plain function
  static const Body* body = nullptr;
  return body;
}

/// Runs `body` on every rank; the exit code. The message of the first failure goes to standard error.
inline int run_ranks(const Ranks& ranks, const Body& body) {
  current_body() = &body;
  static constexpr weft::Stream kStreams[] = {{"first"}, {"second"}, {"third"}};
  const weft::Program program{.streams = std::span(kStreams).first(size_t(ranks.streams)),
                              .own_bytes = ranks.own_bytes,
                              .window_bytes = ranks.window_bytes,
                              .signals = ranks.signals,
                              .run = [](weft::Rank& r) { (*current_body())(r); }};
  const weft::Executable executable{.name = "test", .world = ranks.count, .programs = {&program, 1}};
  const weft::WorldShape shape{
      .ranks = ranks.count, .streams = ranks.streams, .signals = ranks.signals, .notes = weft::kNotesOfRank};
  const size_t bytes = size_t(weft::World::bytes_of(shape));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  weft::World world(shape, static_cast<char*>(memory));
  const std::unique_ptr<weft::Target> target = weft::open_target(executable, ranks.count);
  const auto run_rank = [&](int number) {
    try {
      const weft::RankOptions options{.timeout = ranks.timeout, .graph = ranks.graph, .in_process = true};
      const std::unique_ptr<weft::RankBase> rank = target->make_rank(program, world, number, nullptr, "", options);
      for (int i = 0; i < ranks.iterations; ++i) {
        rank->invocation = uint32_t(i);
        rank->iterate();
      }
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

/// A program of one step on the first stream.
inline int run_step(const Ranks& ranks, const Body& body) {
  return run_ranks(ranks, [&](weft::Rank& r) { r.step({0, "test", "Test test"}, [&] { body(r); }); });
}

/// To the device, and back once all that was issued is done.
template <class T>
void put(T* to, const std::vector<T>& values) {
  cudaMemcpy(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
}
inline void put(bool* to, const std::vector<bool>& values) {
  const std::vector<char> bytes(values.begin(), values.end());
  cudaMemcpy(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
}
template <class T>
std::vector<T> get(weft::Rank& r, const T* from, int64_t count) {
  (void)r.value(from);
  std::vector<char> bytes(size_t(count) * sizeof(T));
  cudaMemcpy(bytes.data(), from, bytes.size(), cudaMemcpyDeviceToHost);
  std::vector<T> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(reinterpret_cast<const T*>(bytes.data())[i]);
  return out;
}

template <class T>
std::vector<T> filled(int64_t count, const std::function<T(int64_t)>& value) {
  std::vector<T> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(value(i));
  return out;
}

}  // namespace weft_test

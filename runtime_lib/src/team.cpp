// The threads of one stream: workers wait for a loop, take chunks by an atomic counter, and wait for each other at its
// end.
#include "weft/team.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "wait.h"

namespace weft {

struct Team::Shared {
  // One loop. Written by the owner while no worker is inside, published by `generation`.
  Call call = nullptr;
  void* body = nullptr;
  int64_t count = 0, chunk = 1;
  std::atomic<int64_t> next{0};
  std::atomic<uint32_t> generation{0}, finished{0}, sleepers{0};
  bool busy = false, stop = false;
  std::mutex failing;
  std::exception_ptr failure;  // what the first call threw that did not return
  std::vector<std::thread> workers;

  void take_chunks() {
    for (;;) {
      const int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= count) return;
      try {
        call(body, begin, std::min(count, begin + chunk));
      } catch (...) {
        const std::lock_guard lock(failing);
        if (!failure) failure = std::current_exception();
      }
    }
  }
  /// Starts a loop, or the end of the workers.
  void release() {
    finished.store(0, std::memory_order_relaxed);
    generation.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(generation, Scope::Process);
  }
  void work(int spins) {
    for (uint32_t seen = 0;; ++seen) {
      wait_for_change(generation, seen, sleepers, spins);
      if (stop) return;
      take_chunks();
      finished.fetch_add(1, std::memory_order_release);
    }
  }
};

Team::Team(int threads) : threads_(threads), shared_(new Shared) {
  // A worker that shares its core with a spinning one only gets in its way.
  const int spins = threads <= int(std::thread::hardware_concurrency()) ? kLongSpin : kShortSpin;
  for (int t = 1; t < threads; ++t) shared_->workers.emplace_back([this, spins] { shared_->work(spins); });
}

Team::~Team() {
  shared_->stop = true;
  shared_->release();
  for (std::thread& worker : shared_->workers) worker.join();
  delete shared_;
}

void Team::run(int64_t count, int64_t grain, Call call, void* body) {
  Shared& s = *shared_;
  if (s.busy) return call(body, 0, count);  // a loop inside a loop body
  constexpr int64_t kChunksPerThread = 8;   // lets a busy neighbour take less without doubling the time
  s.busy = true;
  s.call = call;
  s.body = body;
  s.count = count;
  s.chunk = std::max(grain, (count / (threads_ * kChunksPerThread) + grain - 1) / grain * grain);
  s.next.store(0, std::memory_order_relaxed);
  s.release();
  s.take_chunks();
  const uint32_t workers = uint32_t(threads_ - 1);
  for (int spin = 0; s.finished.load(std::memory_order_acquire) != workers; ++spin) relax(spin);
  s.busy = false;
  if (s.failure) std::rethrow_exception(std::exchange(s.failure, nullptr));
}

}  // namespace weft

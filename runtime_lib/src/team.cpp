// The threads of one stream: workers wait for a loop, enter it while it is open and take chunks: first those of their
// own share, then the rest of others'. A thread's share is the same part of each loop, so that its cache still holds
// the data that it wrote in the previous loop (such as rows of an image). The owner closes the loop when no chunk is
// left, and waits for workers inside. It does not wait for a worker that sleeps, or has lost its core.
#include "weft/team.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cores.h"
#include "failure.h"
#include "wait.h"

namespace weft {

struct Team::Shared {
  // One loop. Written by the owner while it is closed and no worker is inside, published by `inside`.
  Call call = nullptr;
  void* body = nullptr;
  int64_t count = 0, chunk = 1;
  /// The share of a thread: chunks next .. end are not taken yet.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  std::vector<Share> shares;
  static constexpr uint32_t kClosed = 1u << 31;
  std::atomic<uint32_t> inside{kClosed};  // workers in the loop, and whether none may enter any more
  std::atomic<uint32_t> generation{0}, sleepers{0};
  bool busy = false;
  std::atomic<bool> stop = false;  // also read by a worker that comes late to an earlier loop
  std::mutex failing;
  std::exception_ptr failure;  // the exception of the first call that threw
  std::vector<std::thread> workers;

  explicit Shared(int threads) : shares(size_t(threads)) {}
  ~Shared() {
    stop = true;
    wake();
    for (std::thread& worker : workers) worker.join();
  }

  void open(int64_t items, int64_t items_of_chunk) {
    count = items, chunk = items_of_chunk;
    const int64_t chunks = (items + chunk - 1) / chunk, threads = int64_t(shares.size());
    for (int64_t t = 0; t < threads; ++t) {
      Share& share = shares[size_t(t)];
      share.next.store(chunks * t / threads, std::memory_order_relaxed);
      share.end = chunks * (t + 1) / threads;
    }
    inside.store(0, std::memory_order_release);
  }
  void take_chunks(size_t thread) {
    for (size_t i = 0; i < shares.size(); ++i) take_from(shares[(thread + i) % shares.size()]);
  }
  void take_from(Share& share) {
    // Whether there is one left is asked first: threads that look for work do not take the line from its owner.
    while (share.next.load(std::memory_order_relaxed) < share.end) {
      const int64_t taken = share.next.fetch_add(1, std::memory_order_relaxed);
      if (taken >= share.end) return;
      try {
        call(body, taken * chunk, std::min(count, (taken + 1) * chunk));
      } catch (...) {
        const std::lock_guard lock(failing);
        if (!failure) failure = std::current_exception();
      }
    }
  }
  /// False if the loop is closed.
  bool enter() {
    uint32_t workers = inside.load(std::memory_order_relaxed);
    while (!(workers & kClosed))
      if (inside.compare_exchange_weak(workers, workers + 1, std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    return false;
  }
  void close() {
    inside.fetch_or(kClosed, std::memory_order_relaxed);
    for (int spin = 0; inside.load(std::memory_order_acquire) != kClosed; ++spin) relax(spin);
  }
  /// Wakes the workers for a loop, or for their end.
  void wake() {
    generation.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(generation, Scope::Process);
  }
  void work(size_t thread, int spins) {
    for (uint32_t seen = 0;;) {
      wait_for_change(generation, seen, sleepers, spins);
      seen = generation.load(std::memory_order_acquire);
      if (stop) return;
      if (!enter()) continue;
      take_chunks(thread);
      inside.fetch_sub(1, std::memory_order_release);
    }
  }
};

// Where the system has no more threads, those that have begun end with `shared`.
Team::Team(int threads, const int* cores) : threads_(threads) {
  auto shared = std::make_unique<Shared>(threads);
  // A worker that shares its core with a spinning one only gets in its way.
  const int spins = threads <= int(std::thread::hardware_concurrency()) ? kLongSpin : kShortSpin;
  for (int t = 1; t < threads; ++t) {
    try {
      shared->workers.emplace_back([all = shared.get(), t, spins] { all->work(size_t(t), spins); });
    } catch (const std::system_error& error) {
      fail(kEnvironment, "thread %d of %d cannot be started: %s", t + 1, threads, error.what());
    }
    if (cores != nullptr) keep_to({cores + t, 1}, shared->workers.back().native_handle());
  }
  shared_ = shared.release();
}

Team& Team::alone() {
  thread_local Team one(1);
  return one;
}

Team::~Team() { delete shared_; }

void Team::run(int64_t count, int64_t grain, Call call, void* body) {
  Shared& s = *shared_;
  if (s.busy) return call(body, 0, count);  // a loop inside a loop body
  constexpr int64_t kChunksPerThread = 8;   // lets a busy neighbour take less without doubling the time
  s.busy = true;
  s.call = call;
  s.body = body;
  s.open(count, std::max(grain, (count / (threads_ * kChunksPerThread) + grain - 1) / grain * grain));
  s.wake();
  s.take_chunks(0);
  s.close();
  s.busy = false;
  if (s.failure) std::rethrow_exception(std::exchange(s.failure, nullptr));
}

}  // namespace weft

// One block of a kernel: its threads are fibers of one OS thread.
#pragma once
#include <vector>

#include "fiber.h"
#include "include/cuda_runtime.h"
#include "random.h"

namespace weft::emulation {

/// An operation's order for the thread sanitizer: it happens after `before`, and before `after`.
struct Edges {
  std::vector<const void*> before;
  const void* after = nullptr;
};

class Block {
 public:
  enum class Result { Finished, Paused };

  ~Block();
  void start(const Launch& launch, const Edges& edges, uint64_t index, uint64_t seed);
  /// Runs until all threads have ended, or until those that are left poll for something.
  Result run();

  int barrier(Reduce reduce, int predicate, const Where& where);
  uint64_t exchange(Warp kind, unsigned mask, uint64_t value, int source, const Where& where);
  void pause();
  void perturb();
  void* shared(const void* key, size_t bytes, const char* what);
  void thread_main();
  /// " kernel f, block (0,0,0), thread (0,0,0)"
  void describe(char* text, size_t size) const;
  int lane() const { return int(current_ % 32); }

 private:
  struct Thread {
    Fiber fiber;
    char* stack = nullptr;
    void* tsan = nullptr;  // of its own, and with it its stack: see start_thread
    Where where;           // the barrier or warp function that it waits at
    unsigned mask = 0;
    Warp kind = Warp::Sync;
    uint64_t value = 0, taken = 0;
    uint8_t source = 0;
  };
  struct Lanes {  // of a warp, as bits
    uint32_t ready = 0, waiting = 0, sleeping = 0, at_barrier = 0, ended = 0;
  };
  struct Shared {
    const void* key;
    const char* what;
    char* at;
    size_t bytes;
  };

  bool run_warps();
  void run_thread(unsigned index);
  void start_thread(Thread& thread);
  void end_thread(unsigned index);
  void leave(Thread& thread);
  void complete_barrier();
  void complete_exchange(Lanes& warp, unsigned mask, unsigned first);
  void check_shared() const;
  void finish();
  [[noreturn]] void report_stuck();
  [[noreturn]] void mismatch(const Thread& a, unsigned a_index, const Thread& b, unsigned b_index) const;

  const Launch* launch_ = nullptr;
  const Edges* edges_ = nullptr;
  uint3 index_ = {};
  unsigned count_ = 0, alive_ = 0, current_ = 0, arrived_ = 0;
  std::vector<Thread> threads_;
  std::vector<Lanes> warps_;
  Random random_{1};
  Fiber worker_;
  void* worker_tsan_ = nullptr;

  Reduce reduce_ = Reduce::None;
  unsigned first_at_barrier_ = 0;
  int true_count_ = 0, results_[2] = {};
  unsigned barriers_ = 0;

  std::vector<Shared> shared_;
  char* arena_ = nullptr;
  size_t arena_used_ = 0, shared_bytes_ = 0;
};

/// The block whose thread runs on this OS thread, or null.
Block* current_block();
/// The symbol at this address, demangled.
const char* function_name(const void* function, char* text, size_t size);

}  // namespace weft::emulation

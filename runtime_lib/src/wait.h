// Waiting on a word in memory: spin briefly, then sleep in a futex.
#pragma once
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace weft {

enum class Scope { Process, Machine };

/// Spins before sleeping: about 20 us of pauses if every thread has a core, almost none if they share cores.
inline constexpr int kLongSpin = 600, kShortSpin = 20;

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// A time limit for a wait that polls it at least once a second. Time in which this process or the whole job is stopped
/// does not count.
class Patience {
 public:
  explicit Patience(double seconds) : left_(int64_t(seconds * 1e9)), last_(now_ns()) {}
  /// In ns; 0 or less: the time is over.
  int64_t left() {
    constexpr int64_t kLongestTurn = 1'000'000'000;
    const int64_t now = now_ns();
    left_ -= std::min(now - last_, kLongestTurn);
    last_ = now;
    return left_;
  }
  bool is_over() { return left() <= 0; }

 private:
  int64_t left_, last_;
};

inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // takes about as long; a yield takes no time on most cores
#endif
}

/// One turn of a loop that polls for a short time: it yields the core now and then.
inline void relax(int spin) {
  if (spin % 256 == 255)
    sched_yield();
  else
    pause_core();
}

inline void sleep_ns(int64_t ns) {
  const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
  nanosleep(&time, nullptr);
}

/// One turn of a loop that polls for messages from other machines: it first yields the core, then sleeps now and then.
/// There are several turns between two sleeps, since an MPI may receive a message in many small pieces.
inline void back_off(int turn) {
  constexpr int kEager = 100, kTurns = 16;
  if (turn < kEager)
    sched_yield();
  else if (turn % kTurns == 0)
    sleep_ns(50'000);
}

/// Sleeps while the word holds `value`, at most `ns`.
inline void futex_sleep(std::atomic<uint32_t>& word, uint32_t value, int64_t ns, Scope scope) {
  const timespec limit{ns / 1'000'000'000, ns % 1'000'000'000};
  const int op = scope == Scope::Process ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), op, value, &limit, nullptr, 0);
}

inline void futex_wake_all(std::atomic<uint32_t>& word, Scope scope) {
  const int op = scope == Scope::Process ? FUTEX_WAKE_PRIVATE : FUTEX_WAKE;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), op, INT32_MAX, nullptr, nullptr, 0);
}

/// Waits inside one process until the word is no longer `old`. The writer wakes when `sleepers` is not 0.
inline void wait_for_change(std::atomic<uint32_t>& word, uint32_t old, std::atomic<uint32_t>& sleepers, int spins) {
  for (int spin = 0; spin < spins; ++spin) {
    if (word.load(std::memory_order_acquire) != old) return;
    relax(spin);
  }
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (word.load(std::memory_order_seq_cst) == old) futex_sleep(word, old, 1'000'000'000, Scope::Process);
  sleepers.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace weft

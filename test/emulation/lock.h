// A lock and a wake-up word that the thread sanitizer does not see: what merely passes through the scheduler must not
// look ordered. Sources that include this are compiled without its instrumentation (see CMakeLists.txt).
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "sanitizers.h"

namespace weft::emulation {

inline void futex_wait(std::atomic<uint32_t>& word, uint32_t value, const timespec* time = nullptr) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, time, nullptr, 0);
}
inline void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

class Lock {
 public:
  void lock() {
    uint32_t free = 0;
    if (word_.compare_exchange_strong(free, 1, std::memory_order_acquire)) return;
    while (word_.exchange(2, std::memory_order_acquire) != 0) futex_wait(word_, 2);
  }
  void unlock() {
    if (word_.exchange(0, std::memory_order_release) == 2) futex_wake(word_, 1);
  }

 private:
  std::atomic<uint32_t> word_{0};
};

struct Guard {
  explicit Guard(Lock& l) : lock(l) { lock.lock(); }
  ~Guard() { lock.unlock(); }
  Guard(const Guard&) = delete;
  Lock& lock;
};

/// For what is the emulation's own: even its memory is allocated and freed unseen.
struct QuietGuard : Guard {
  explicit QuietGuard(Lock& l) : Guard(l) { tsan_ignore_begin(); }
  ~QuietGuard() { tsan_ignore_end(); }
};

/// Counts events; sleepers wait for the next one.
class Bell {
 public:
  uint32_t count() const { return word_.load(std::memory_order_acquire); }
  void ring() {
    word_.fetch_add(1, std::memory_order_release);
    futex_wake(word_, INT32_MAX);
  }
  void wait(uint32_t seen, int64_t nanoseconds = 1'000'000'000) {
    const timespec time{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
    futex_wait(word_, seen, &time);
  }

 private:
  std::atomic<uint32_t> word_{0};
};

}  // namespace weft::emulation

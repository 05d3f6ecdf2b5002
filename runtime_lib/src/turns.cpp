// Asking Linux for short time slices, through a system call for which C libraries have no function yet.
#include "turns.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace weft {

namespace {
/// The kernel's struct sched_attr, which not every C library declares, and whose own header clashes with <sched.h>.
struct SchedulingAttributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};
}  // namespace

void take_short_turns() {
  constexpr uint64_t kTurn = 100'000;  // ns: the shortest that the kernel grants
  SchedulingAttributes mine = {};
  if (syscall(SYS_sched_getattr, 0, &mine, sizeof mine, 0) != 0 || mine.policy != SCHED_OTHER) return;
  mine.size = sizeof mine;
  mine.runtime = kTurn;
  syscall(SYS_sched_setattr, 0, &mine, 0);
}

}  // namespace weft

// Assignment of threads to cores. A thread inherits the affinity of the thread that starts it.
#include "cores.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "failure.h"

namespace weft {

std::vector<int> allowed_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

void keep_to(std::span<const int> cores, pthread_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  if (const int error = pthread_setaffinity_np(thread, sizeof set, &set); error != 0)
    fail(kEnvironment, "--bind: a thread cannot be bound to core %d: %s", cores.front(), strerror(error));
}

int default_threads(int cores, const CoreShare& share) { return std::max(1, cores / share.ranks); }

std::vector<int> cores_of(std::span<const int> cores, const CoreShare& share, int threads) {
  const size_t begin = size_t(share.rank) * size_t(threads), end = begin + size_t(threads);
  if (end > cores.size())
    fail(kUsage,
         "--bind: rank %d of %d on this machine would need cores %zu to %zu, one for each of %d threads; there are %zu",
         share.rank, share.ranks, begin + 1, end, threads, cores.size());
  return {cores.begin() + std::ptrdiff_t(begin), cores.begin() + std::ptrdiff_t(end)};
}

}  // namespace weft

// The cores of the machine on which a rank's threads run.
#pragma once
#include <pthread.h>

#include <span>
#include <vector>

namespace weft {

/// The cores on which the calling thread may run, in order. A launcher or `taskset` may have restricted them.
std::vector<int> allowed_cores();

/// Binds a thread, and threads that it starts later, to these cores. Throws Failure (environment).
void keep_to(std::span<const int> cores, pthread_t thread = pthread_self());

/// The position of a rank among the ranks that share the cores of its process.
struct CoreShare {
  int rank = 0, ranks = 1;
};

/// How many threads such a rank has by default: its share of the cores, at least 1.
int default_threads(int cores, const CoreShare& share);

/// The cores of a rank of `threads` threads, one for each: ranks take them in order. Throws Failure (usage) if there
/// are too few.
std::vector<int> cores_of(std::span<const int> cores, const CoreShare& share, int threads);

}  // namespace weft

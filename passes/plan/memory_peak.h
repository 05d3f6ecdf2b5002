// The step at which most of a memory is taken, and the buffers that take it: `explain` prints this for a placed Plan.
//
//   steps:   1 fc   2 proj   3 sum        bytes held: 1 KiB, 3 KiB, 2 KiB: the peak is in step 2
//   fc       [----------]
//   proj            [----------]          the all-reduce `sum` writes where `proj` lies: one held memory
//   sum                      [--]
#pragma once
#include <vector>

#include "passes/plan/live_ranges.h"

namespace weftc {

/// A rank's own memory, its windows, or the memory of each of its threads.
enum class MemoryKind { Own, Window, Thread };

/// Bytes that are held from one step to another: by a buffer, or by several, each written where the previous one lies.
struct HeldMemory {
  std::vector<BufferId> buffers;  // in the order of their first steps
  LiveRange range;                // of all of them
  int64_t bytes = 0;              // of all instances
};
/// All that is held of a program's memory over the whole run, in the order of positions in memory.
std::vector<HeldMemory> held_memory(const Plan& plan, const Program& program, MemoryKind kind,
                                    const LiveRanges& ranges);

struct MemoryPeak {
  int at = 0;                    // position among the steps (LiveRanges)
  int64_t bytes = 0;             // held there
  int64_t size = 0;              // of the whole memory: larger, if gaps are left between buffers
  std::vector<HeldMemory> held;  // there; largest first
};
/// The first step of the program at which no fewer bytes are held than anywhere else.
MemoryPeak memory_peak(const Plan& plan, const Program& program, MemoryKind kind, const LiveRanges& ranges);

}  // namespace weftc

// The problem of a pipeline schedule: blocks with times, memory, devices and predecessors, once for each micro-batch.
// The semantics are those of Tessel (Lin et al., HPCA 2024), with limits that may differ between devices.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weftc {

/// One piece of work of a micro-batch. It occupies all of its devices for its whole time, without a break.
struct PipelineBlock {
  std::vector<int> devices;  // at least one, each once
  int64_t time = 1;          // positive
  int64_t memory = 0;        // taken on each of its devices when it starts; negative: given back
  std::vector<int> after;    // blocks of the same micro-batch that end before it starts
};

struct PipelineProblem {
  std::vector<PipelineBlock> blocks;
  std::vector<int64_t> limits;  // of the memory of each device
};

/// Without a limit of memory.
constexpr int64_t kNoLimit = INT64_MAX / 4;

/// Blocks, each after those that it waits for; fewer than all where some wait for themselves.
std::vector<int> topological_order(const PipelineProblem& problem);

/// before[a][b]: block a ends before block b starts, directly or through others.
std::vector<std::vector<bool>> precedence_of(const PipelineProblem& problem);

/// Block `to` is after block `from`.
struct PipelineEdge {
  int from, to;
};

/// Makes blocks that wait for each other, directly or through others, run side by side and wait inside. Removes the
/// edges between them from `after`, and returns these.
std::vector<PipelineEdge> cut_circles(PipelineProblem& problem);

/// The blocks of each device.
std::vector<std::vector<int>> blocks_by_device(const PipelineProblem& problem);

/// The time that a micro-batch takes on each device.
std::vector<int64_t> device_loads(const PipelineProblem& problem);

/// An amount that `from` takes on a device and `to` gives back there.
struct MemoryLease {
  int from, to;
  int64_t amount;
};

/// All memory that the blocks of a device take, by the block that gives it back, which comes after the one that takes
/// it. Nothing where that is impossible, which the faults `Freed` and `Kept` report; `unmatched` or `unreturned` is
/// then the failing block.
struct MemoryLeases {
  std::vector<MemoryLease> all;
  int unmatched = -1;   // a block that gives back too much
  int unreturned = -1;  // a block whose memory is not given back
};
MemoryLeases leases_of(const PipelineProblem& problem, int device, const std::vector<std::vector<bool>>& before);

}  // namespace weftc

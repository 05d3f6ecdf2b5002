// The best periodic schedule of a pipeline: the shortest period within the limits of memory, and the least memory at
// it.
#pragma once
#include "passes/pipelining/period_search.h"

namespace weftc {

/// Block b of micro-batch m = q * copies + c starts at starts[c][b] + q * period.
struct PeriodicSchedule {
  int copies = 1;                            // micro-batches a period
  int64_t period = 0;                        // of all copies together
  int64_t least_period = 0;                  // no schedule's is shorter; the period itself where that is proved
  std::vector<std::vector<int64_t>> starts;  // by copy and block; the first is at 0
  std::vector<int64_t> peaks;                // the memory of each device, once the pipeline is filled
  int64_t least_memory = 0;                  // no schedule of this period has a lower highest peak

  int64_t memory() const;  // the highest peak
};

/// The micro-batches of one period as one problem.
PipelineProblem unrolled(const PipelineProblem& problem, int copies);

/// The most memory that each device holds in a schedule without an end.
std::vector<int64_t> periodic_peaks(const PipelineProblem& problem, const std::vector<int64_t>& starts, int64_t period);

/// The schedule of `copies` micro-batches a period. `problem` has no faults; `steps` bounds the work, after which the
/// best result so far is returned with lower bounds.
PeriodicSchedule find_periodic_schedule(const PipelineProblem& problem, int copies, uint64_t steps);

/// Steps of the search that one core does in a second, about.
constexpr uint64_t kStepsASecond = 1'000'000'000;

/// A bound of work that fits problems of this size: some seconds if the search does not end by itself.
uint64_t usual_steps(const PipelineProblem& problem, int copies);

}  // namespace weftc

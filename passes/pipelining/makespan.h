// A number of micro-batches from the first to the last: how a pipeline fills and drains around its periods.
#pragma once
#include "passes/pipelining/fill_search.h"
#include "passes/pipelining/periodic_schedule.h"

namespace weftc {

struct Makespan {
  PipelineStarts starts;
  int64_t length = 0;
  int64_t least = 0;  // no schedule is shorter; the length itself where that is proved
};

/// The periodic schedule with its ends closed up: each device keeps its order, and each block starts as soon as its
/// devices and the blocks before it allow. The memory of a device follows from its order alone, and stays as it was.
PipelineStarts compacted(const PipelineProblem& problem, const PeriodicSchedule& schedule, int micro_batches);

/// When the last block ends.
int64_t length_of(const PipelineProblem& problem, const PipelineStarts& starts);

/// No schedule of `micro_batches` is shorter, seen from either end.
int64_t least_length(const PipelineProblem& problem, int micro_batches);

/// The shortest of the compacted schedule and of the results of searches from either end, within the limits of memory.
Makespan find_makespan(const PipelineProblem& problem, const PeriodicSchedule& schedule, int micro_batches);

}  // namespace weftc

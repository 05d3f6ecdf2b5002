// The order that is searched for these times and limits, instead of one of the literature.
#pragma once
#include <optional>

#include "passes/pipelining/faults.h"
#include "passes/pipelining/makespan.h"
#include "passes/pipelining/orders.h"

namespace weftc {

struct SearchedOrder {
  std::vector<PipelineTurn> turns;
  std::vector<PipelineFault> faults;   // why no order keeps the limits; without faults there are turns
  PeriodicSchedule periodic;           // what the middle of a long run comes to
  int64_t length = 0;                  // of all micro-batches
  int64_t least = 0;                   // no order is shorter; the length itself where that is proved
  std::vector<int64_t> peaks;          // the most memory that each device of the stages holds
  std::optional<PipelineOrder> named;  // the turns are those of a named order, better than what was found
};

/// The turns of stages; transfers take their time and wait for their links. The shortest of orders within the limits,
/// of those the one with less memory: a schedule of 1 to `periods` micro-batches a period, the one with the shortest
/// time for a micro-batch (then with less memory, then with fewer micro-batches), filled and drained by another search;
/// and all named orders. `steps` bounds the work of each number of micro-batches a period, not the time, so that the
/// same input has the same answer everywhere; 0: usual_steps.
SearchedOrder searched_order(const StagedPipeline& pipeline, int micro_batches, int periods, uint64_t steps);

}  // namespace weftc

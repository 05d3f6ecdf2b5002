// Searches an order for given times and limits, instead of taking one of the literature.
#pragma once
#include <optional>

#include "passes/pipelining/faults.h"
#include "passes/pipelining/makespan.h"
#include "passes/pipelining/orders.h"

namespace weftc {

struct SearchedOrder {
  std::vector<PipelineTurn> turns;
  std::vector<PipelineFault> faults;   // why no order keeps the limits; without faults there are turns
  PeriodicSchedule periodic;           // the steady middle of a long run
  int64_t length = 0;                  // of all micro-batches
  int64_t least = 0;                   // no order is shorter than this; the length itself where that is proved
  std::vector<int64_t> peaks;          // the most memory that each device of the stages holds
  std::optional<PipelineOrder> named;  // the turns are those of a named order, better than what was found
};

/// The turns of stages; transfers take their time and wait for their links. Takes the shortest order within the limits,
/// then the one with less memory. The candidates are a periodic schedule and all named orders.
///
/// The periodic schedule has 1 to `periods` micro-batches a period. It is the one with the shortest time for a
/// micro-batch (then with less memory, then with fewer micro-batches), filled and drained by another search. `steps`
/// bounds the work of each number of micro-batches a period, not the time, so that the same input has the same answer
/// everywhere; 0: usual_steps.
SearchedOrder searched_order(const StagedPipeline& pipeline, int micro_batches, int periods, uint64_t steps);

}  // namespace weftc

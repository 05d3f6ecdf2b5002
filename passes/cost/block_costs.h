// The times of a pipeline's blocks on the Plan's target, as a problem for the search of its order.
#pragma once
#include "passes/cost/cost_model.h"
#include "passes/pipelining/order_picture.h"

namespace weftc {

struct BlockCosts {
  StagedPipeline pipeline;  // of the blocks that run micro-batches: nanoseconds, and bytes that one hands to another
  std::vector<int> blocks;  // of the Plan, by block of the problem
  std::vector<PipelineEdge> mutual;  // reads of blocks that read each other: the problem is without them
  std::vector<int64_t> others;       // by rank: bytes of everything else
  std::vector<OnceBlock> once;       // of the blocks that run once, in the Plan's order
  std::vector<int> once_blocks;      // of the Plan, by those
};

/// Each step takes the time of the model, on the slowest rank of the block. Each transfer takes its time on a link, one
/// for each pair of places. Devices are ranks, without limits. `pipeline` is the module's, from which the plan was
/// made.
BlockCosts block_costs(const Plan& plan, const Pipeline& pipeline, const CostModel& model);

}  // namespace weftc

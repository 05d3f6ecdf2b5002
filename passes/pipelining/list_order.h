// Orders by list scheduling: at each moment, each device begins the first block of a list that can run.
#pragma once
#include "passes/pipelining/staged_pipeline.h"

namespace weftc {

/// Bounds on the memory of an order, and the choice between ready blocks.
struct ListRules {
  std::vector<int> in_flight;      // by stage: the most micro-batches between Forward and Backward
  std::vector<int> kept;           // by stage: the most micro-batches between Forward and the end of the backward pass
  bool fills_with_weight = false;  // Weight blocks run where a device would be idle, not right after their Backward
};

/// How many stages a micro-batch still has to enter, at most, this one included. Stages in a row at one place count
/// once. This is how many micro-batches 1F1B has in flight: as many as keep the stage busy until the first comes back.
std::vector<int> depths_of(const StagedPipeline& pipeline);

/// 1F1B: `depths` micro-batches in flight. Stages without a backward pass are bounded by their readers; without any
/// backward pass this is the wavefront.
ListRules one_f_one_b(const std::vector<int>& depths);

/// ZB-H1 (Qi et al., ICLR 2024): as 1F1B, but Weight blocks wait for idle time, for as long as no device keeps more
/// than the one does that keeps most in 1F1B.
ListRules zero_bubble_h1(const StagedPipeline& pipeline, const std::vector<int>& depths);

/// The turns in the order in which they begin. Times are those of the problem.
std::vector<PipelineTurn> list_order(const StagedPipeline& pipeline, const ListRules& rules, int micro_batches);

}  // namespace weftc

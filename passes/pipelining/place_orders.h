// Orders that are known in closed form: the turns of each place, one by one.
#pragma once
#include "passes/pipelining/placements.h"

namespace weftc {

/// By place. A turn runs on the devices of its place alone.
using PlaceTurns = std::vector<std::vector<PipelineTurn>>;

/// Megatron-LM's interleaved 1F1B (Narayanan et al., SC 2021), for a multiple of as many micro-batches as places.
PlaceTurns interleaved_turns(const StagedPipeline& pipeline, const Placement& placement, int micro_batches);

/// ZB-V (Qi et al., 2024): the memory of 1F1B, and no idle time between the first and the last turn of a place where
/// the parts of a pass take equally long.
PlaceTurns zero_bubble_v_turns(const StagedPipeline& pipeline, const Placement& placement, int micro_batches);

/// DualPipe (DeepSeek-V3, 2024), for an even number of places. A forward pass that it overlaps with a backward pass is
/// directly before it.
PlaceTurns dual_pipe_turns(const StagedPipeline& pipeline, const Placement& placement, int micro_batches);

/// One list with these orders; empty where their turns wait for each other.
std::vector<PipelineTurn> merged(const PipelineProblem& problem, const PlaceTurns& places, int micro_batches);

}  // namespace weftc

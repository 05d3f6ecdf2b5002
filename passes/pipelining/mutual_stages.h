// Stages that read each other, as one stage. While their blocks run a micro-batch they wait for each other inside, so
// that no rank may be at another pass or micro-batch meanwhile: an order that runs has them in step.
//
//   a reads b, b reads a, and c reads b     ->     one stage on the devices of a and b, and c reads it
#pragma once
#include "passes/pipelining/staged_pipeline.h"

namespace weftc {

struct JoinedStages {
  StagedPipeline pipeline;               // whose stages do not read each other
  std::vector<std::vector<int>> blocks;  // by block of it: those that it stands for, in their order
  std::vector<int> first_stages;         // by stage of it: the first that it stands for
};

/// The same pipeline where no stages read each other. What a block reads of one of its own stage orders nothing.
JoinedStages join_mutual_stages(const StagedPipeline& pipeline);

/// The turns of the blocks that those of the joined pipeline stand for.
std::vector<PipelineTurn> turns_of_members(const JoinedStages& joined, const std::vector<PipelineTurn>& turns);

}  // namespace weftc

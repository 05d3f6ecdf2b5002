// Joins stages that read each other to one stage. While their blocks run a micro-batch they wait for each other inside,
// so no rank may be at another pass or micro-batch meanwhile. An order that can run has them in step.
//
//   a reads b, b reads a, and c reads b     ->     one stage on the devices of a and b, and c reads it
#pragma once
#include "passes/pipelining/staged_pipeline.h"

namespace weftc {

struct JoinedStages {
  StagedPipeline pipeline;               // whose stages do not read each other
  std::vector<std::vector<int>> blocks;  // by joined block: its original blocks, in their order
  std::vector<int> first_stages;         // by joined stage: the first of its original stages
};

/// The same pipeline such that no stages read each other. Reads within one stage constrain no order.
JoinedStages join_mutual_stages(const StagedPipeline& pipeline);

/// The turns of the original blocks, in place of the joined ones.
std::vector<PipelineTurn> turns_of_members(const JoinedStages& joined, const std::vector<PipelineTurn>& turns);

}  // namespace weftc

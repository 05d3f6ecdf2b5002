// The orders in which the ranks of a pipeline run its blocks: the tables of the literature, made for the given stages.
//
//   1f1b, stages a and b on two devices, three micro-batches; capital letters are backward passes
//     device of a   a0 a1 A0 a2 A1 A2
//     device of b   b0 B0 b1 B1 b2 B2
#pragma once
#include "ir/pipeline_order.h"
#include "passes/pipelining/placements.h"

namespace weftc {

/// One list for all devices; each runs the turns of its own blocks in this order. Every turn is there once, and the
/// micro-batches of a block ascend. A turn comes after the turns of the same micro-batch whose blocks its own block is
/// after, so running the list sequentially is correct as well.
struct OrderedTurns {
  std::vector<PipelineTurn> turns;
  std::string refusal;  // why these stages have no such order, and what would fit; "" if they have one
};

/// The order of that name. Times and limits of the problem do not matter, since these are tables for unit times.
OrderedTurns named_order(const StagedPipeline& pipeline, PipelineOrder order, int micro_batches,
                         const StageName& name = number_of_stage);

}  // namespace weftc

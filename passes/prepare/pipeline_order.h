// The order in which the blocks of a pipeline run micro-batches: GPipe, 1F1B, or the table of the schedule (P2).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"
#include "passes/prepare/stages.h"

namespace weftc {

/// The name of a block in the table of an order: "a.backward" for a training's stage a; else the stage's name.
std::string name_in_table(const PipelineRequest& request, const Pipeline::Block& block, bool is_training);

/// One list for all ranks. Reports a table with missing, repeated or descending entries, or with a block before one
/// whose result it reads.
std::optional<Pipeline> pipeline_order(const Schedule& schedule, std::vector<Pipeline::Block> blocks,
                                       const std::vector<BlockRead>& reads, Diags& diags);

}  // namespace weftc

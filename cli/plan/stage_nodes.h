// The nodes of stages as a schedule lists them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "passes/prepare/stages.h"

namespace weftc {

/// Requests for stages stage0, stage1, ..., each with its cells. The last stage has all nodes that no other lists.
/// `stage_of`: by cell. Returns nullopt if no names match exactly these nodes.
std::optional<std::vector<StageRequest>> stage_requests(const Module& module, const Schedule& schedule,
                                                        const StageCells& cells, const std::vector<int>& stage_of);

}  // namespace weftc

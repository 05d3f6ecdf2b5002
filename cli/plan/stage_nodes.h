// The nodes of stages as a schedule lists them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "passes/prepare/stages.h"

namespace weftc {

/// Stages stage0, stage1, ... of which each has its cells of a line, the last one whatever no other lists. `stage_of`:
/// by cell. Nothing where no names mean exactly these.
std::optional<std::vector<StageRequest>> stage_requests(const Module& module, const Schedule& schedule,
                                                        const StageCells& cells, const std::vector<int>& stage_of);

}  // namespace weftc

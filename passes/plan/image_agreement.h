// Convolutions that read each other's results agree on how these lie.
#pragma once
#include <vector>

#include "passes/plan/plan_parts.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

/// Makes convolutions agree, since each strategy was chosen by itself. Where one convolution writes an image in planes
/// and the next reads it with its channels innermost, or the reverse, reordering takes time. Then one of the two may be
/// faster with its second best strategy. `choices` are by KernelId.
void agree_on_images(const PlanDraft& planning, std::vector<StrategyChoice>& choices);

}  // namespace weftc

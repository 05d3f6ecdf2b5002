// Convolutions that read each other's results agree on how these lie.
#pragma once
#include <vector>

#include "passes/plan/plan_parts.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

/// One launched kernel's strategy, and for a convolution whose strategy prices chose also the other forms.
struct StrategyChoice {
  Strategy strategy;
  ConvolutionForms forms = {};
};

/// Each convolution was chosen for itself. An image that one leaves in planes and the next one reads with its channels
/// innermost, or the other way round, takes time to bring from one order to the other, so that one of the two may do
/// better with its second best strategy. `choices` are by KernelId.
void agree_on_images(const PlanDraft& planning, std::vector<StrategyChoice>& choices);

}  // namespace weftc

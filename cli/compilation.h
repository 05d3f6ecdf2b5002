// The results of a compilation so far, passed from stage to stage.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "cli/order_search.h"
#include "cli/recompute_search.h"
#include "cli/variants.h"
#include "ir/machine.h"
#include "ir/plan.h"
#include "ir/schedule.h"
#include "passes/plan/merge_variants.h"
#include "passes/runner.h"

namespace weftc {

/// It must not move: the plan refers to the module's constants.
struct Compilation {
  Schedule schedule;
  Module module;
  Target target;
  Machine machine;  // of predictions
  RunReport passes;
  Plan plan;
  // Results of the searches that the schedule requests.
  std::optional<FoundOrder> order = {};
  std::optional<RecomputeSearch> recomputation = {};
  std::string measured = {};  // times of --profile, if the order is not searched
};

/// A variant of the executable, and its compilation.
struct CompiledVariant {
  VariantRequest request;
  std::unique_ptr<Compilation> compilation;
};
/// All variants: a single one if no dim has several values.
using CompiledVariants = std::vector<CompiledVariant>;
std::vector<VariantPlan> variant_plans(const CompiledVariants& variants);

}  // namespace weftc

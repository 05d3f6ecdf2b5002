// What one compilation has made so far, handed from stage to stage.
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

/// It stays where it is: the plan refers to the module's constants.
struct Compilation {
  Schedule schedule;
  Module module;
  Target target;
  Machine machine;  // that predictions are for
  RunReport passes;
  Plan plan;
  // Of what the schedule lets be searched.
  std::optional<FoundOrder> order = {};
  std::optional<RecomputeSearch> recomputation = {};
  std::string measured = {};  // times of --profile, where the order is not searched
};

/// A variant of the executable, and its compilation.
struct CompiledVariant {
  VariantRequest request;
  std::unique_ptr<Compilation> compilation;
};
/// All of them: one where no dim has several values.
using CompiledVariants = std::vector<CompiledVariant>;
std::vector<VariantPlan> variant_plans(const CompiledVariants& variants);

}  // namespace weftc

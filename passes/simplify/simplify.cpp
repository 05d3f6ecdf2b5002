// Makes the graph smaller by algebraic rules (rule.h defines a rule).
//
//   %c = Conv(%x, %w), %y = BatchNormalization(%c, ...)   ->   %y = Conv(%x, %w', %b)
//   %a = Transpose(%x), %y = Transpose(%a)                ->   %y = Transpose(%x), or nothing
//   %p = Pad(%x), %y = Conv(%p, %w)                       ->   %y = Conv(%x, %w) with pads
//
// The pass runs before `decompose`, where a normalisation is still one op. No result is less precise than before. A
// rule that treats unequal bits as equal says so.
#include <algorithm>

#include "ir/base/text.h"
#include "passes/passes.h"
#include "passes/select.h"
#include "passes/simplify/rules.h"

namespace weftc {

static std::vector<Rule> all_rules() {
  std::vector<Rule> all;
  for (const std::span<const Rule> rules :
       {arithmetic_rules(), view_rules(), window_rules(), weight_rules(), quantized_rules()})
    all.insert(all.end(), rules.begin(), rules.end());
  return all;
}

/// The stage of the schedule's pipeline that lists each node of the model, -1 where no stage does.
static std::vector<int> stages_of_nodes(const Module& module, const Schedule& schedule) {
  std::vector<int> stages(module.origins.size(), -1);
  if (!schedule.pipeline) return stages;
  const SelectableNames names(module, module.graph, schedule.aliases);
  for (size_t s = 0; s < schedule.pipeline->stages.size(); ++s)
    for (const Selector& selector : schedule.pipeline->stages[s].nodes)
      for (const Bindings& bindings : names.bindings({selector}))
        for (const OpId id : names.select_ops(selector, bindings))
          for (const OriginId node : module.graph.op(id).origins) stages[node.index] = static_cast<int>(s);
  return stages;
}

/// Nodes of two stages run at different times, perhaps in different places, so no op can replace both.
static bool is_in_one_stage(const Match& match, const std::vector<int>& stages) {
  int common = -1;
  for (const OpId id : match.ops())
    for (const OriginId node : match.graph().op(id).origins) {
      const int stage = stages[node.index];
      if (stage >= 0 && common >= 0 && stage != common) return false;
      common = std::max(common, stage);
    }
  return true;
}

void simplify(Module& module, const Env& env) {
  static const std::vector<Rule> rules = all_rules();
  const std::vector<int> stages = stages_of_nodes(module, env.schedule);
  const auto may_join = [&](const Match& match) { return is_in_one_stage(match, stages); };
  for (const auto& [rule, count] : rewrite(module, rules, may_join))
    module.remarks.push_back(format("simplify: {} ({})", rule->name, count));
}

}  // namespace weftc

// A kernel gets the first strategy that is legal for it, unless the schedule names another one. If legal strategies
// have prices (convolutions on the host), it gets the cheapest.
#include <algorithm>

#include "ir/base/contains.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

static const std::vector<StrategyRule>& rules_of_all_families() {
  static const std::vector<StrategyRule> rules = [] {
    std::vector<StrategyRule> all;
    for (const auto& family : {exchange_rules(), product_rules(), convolution_rules(), loop_rules()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return rules;
}

StrategyChoice choose_strategy(const StrategyContext& context) {
  std::vector<std::string> reasons;
  for (const StrategyRule& rule : rules_of_all_families()) {
    Verdict verdict = rule.ask(context);
    if (verdict.strategy && verdict.why.empty()) return cheapest_convolution(context, std::move(*verdict.strategy));
    if (!verdict.why.empty()) reasons.push_back(format("no {}: {}", rule.name, verdict.why));
  }
  return {PlainLoops{join(reasons, "; ")}};
}

Verdict find_strategy(const StrategyContext& context, const std::string& name) {
  const std::vector<StrategyRule>& rules = rules_of_all_families();
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const StrategyRule& r) { return name == r.name; });
  if (name == PlainLoops::kName) return plain_loops(context);
  if (rule == rules.end()) return refused("it is for states, and chosen where they are updated in place");
  Verdict verdict = rule->ask(context);
  if (!verdict.strategy && verdict.why.empty()) return refused(format("it is for {}", rule->is_for));
  return verdict;
}

/// Few enough to be tried one by one: a quarter to four times the number that the rule chooses, and some of these.
static std::vector<int64_t> panels_to_try(const StrategyContext& context, const StrategyRule& rule) {
  constexpr int64_t kLeast = 4;
  if (!has_panels(rule.name)) return {0};
  const Verdict verdict = rule.ask(context);
  if (!verdict.strategy) return {};
  const int64_t chosen = std::get<UnfoldedConvolution>(*verdict.strategy).panels;
  std::vector<int64_t> panels = {chosen};
  for (const int64_t other : {chosen / 4, chosen / 2, 2 * chosen, 4 * chosen})
    if (other >= kLeast) panels.push_back(other);
  return panels;
}

std::vector<Strategy> legal_strategies(const StrategyContext& context) {
  std::vector<Strategy> legal;
  for (const StrategyRule& rule : rules_of_all_families()) {
    std::vector<std::vector<int64_t>> tiles = {{}};
    if (has_tile(rule.name)) tiles = tile_extents();
    for (const std::vector<int64_t>& tile : tiles)
      for (const int64_t panels : panels_to_try(context, rule)) {
        Verdict verdict = rule.ask({context.body, context.constants, context.target, context.use, tile, panels});
        if (verdict.strategy) legal.push_back(std::move(*verdict.strategy));
      }
  }
  return legal;
}

template <class Asks>
static bool any_op(const Graph& body, const Asks& asks) {
  for (OpId id = body.first(); id; id = body.next(id))
    if (asks(body.op(id))) return true;
  return false;
}

bool has_op(const Graph& body, std::initializer_list<OpKind> kinds) {
  return any_op(body, [&](const Op& op) { return contains(kinds, op.kind); });
}

bool has_op(const Graph& body, std::initializer_list<Category> categories) {
  return any_op(body, [&](const Op& op) { return contains(categories, category(op)); });
}

void set_strategy(Kernel& kernel, Strategy strategy) {
  kernel.strategy = std::move(strategy);
  for (PackedWeight& packed : packed_weights_of(kernel.strategy))
    kernel.parameters[packed.parameter].storage = std::move(packed.packing);
}

}  // namespace weftc

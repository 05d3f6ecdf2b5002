// The pass: types the graph under what is known of run-time lengths. Two things of them are known only when all types
// are: how long the states let them become, and from which length on the model's arithmetic means something. Both are
// found by inferring types as a trial first.
#include <algorithm>
#include <limits>

#include "passes/passes.h"
#include "passes/prepare/check_states.h"
#include "passes/prepare/relate_lengths.h"
#include "passes/prepare/type_inference.h"

namespace weftc {

namespace {

bool has_growing_state(const Module& module) {
  return std::any_of(module.states.begin(), module.states.end(), [&](const State& state) {
    return !is_static(module.graph.type(module.graph.find_value(state.input)).shape);
  });
}

/// An inference whose graph is thrown away.
struct Trial {
  int errors;
  InferredTypes found;
};

Trial try_to_infer(Module& module, const ShapeValues& known, const Least& least) {
  const Graph graph = module.graph;
  const auto folded = module.folded;
  const auto unread = module.unread;
  const auto lengths = module.lengths;
  Diags discarded;
  InferredTypes found = infer_graph(module, discarded, known, least);
  module.graph = graph;
  module.folded = folded;
  module.unread = unread;
  module.lengths = lengths;
  return {discarded.errors(), std::move(found)};
}

/// How long the next values of states are at most: as long as the states. Such a length may come up before the cache
/// grows (a mask of past + seq rows), when nothing says so yet; therefore all types are inferred as a trial first.
ShapeValues limits_of_states(Module& module) {
  if (!has_growing_state(module)) return {};
  ShapeValues limits, before;
  do {
    before = limits;
    limits = try_to_infer(module, before, {}).found.limits;
  } while (!(limits == before));
  return limits;
}

bool has_open_dim(const Module& module) {
  return std::ranges::any_of(module.graph.inputs(),
                             [&](ValueId input) { return !is_static(module.graph.type(input).shape); });
}

/// What inputs have along their open dimensions at least: nothing, unless the model's arithmetic means something from
/// some length on only. (n - 1) / 4 + 1, as exporters write the number of windows, is no length where n is 0.
Least least_lengths(Module& module, const ShapeValues& limits) {
  if (!has_open_dim(module)) return {};
  constexpr int kMostRounds = 16;
  Least best, least;
  int fewest = std::numeric_limits<int>::max();
  for (int round = 0; round < kMostRounds; ++round) {
    const Trial trial = try_to_infer(module, limits, least);
    if (trial.errors < fewest) fewest = trial.errors, best = least;
    if (trial.errors == 0) break;
    const Least before = least;
    for (const auto& [name, value] : trial.found.demands) least[name] = std::max(least[name], value);
    if (least == before && !least.emplace("", 1).second) break;
  }
  return best;
}

}  // namespace

void infer_types(Module& module, const Env& env) {
  const bool has_outputs = !module.graph.outputs().empty();
  const ShapeValues limits = limits_of_states(module);
  infer_graph(module, env.diags, limits, least_lengths(module, limits));
  if (env.diags.ok() && has_outputs && module.graph.outputs().empty())
    env.diags.error("outputs-empty-unsupported", Loc::in_file(module.file),
                    "all outputs of the model are sequences and optionals without an element");
  if (!env.diags.ok()) return;
  check_states(module, env.diags);
  relate_composites(module, module.graph, env.diags);
}

}  // namespace weftc

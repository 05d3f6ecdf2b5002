// The rows of a state keep the state's bound; values computed from them may be longer.
#include "passes/prepare/known_lengths.h"

#include <algorithm>
#include <set>

#include "ir/named_lengths.h"

namespace weftc {

/// The names that rows of states have.
static std::set<std::string> names_of_states(const Module& module) {
  std::set<std::string> names;
  for (const State& state : module.states)
    for_each_name(module.graph.type(module.graph.find_value(state.input)).shape,
                  [&](const std::string& name) { names.insert(name); });
  return names;
}

/// The extent of a name that is known better: between other bounds, or a number.
static Extent bounded(Module& module, const LengthSymbol& name, const KnownLengths& known, bool is_of_state) {
  if (const auto pin = known.pins.find(name.text); pin != known.pins.end() && !is_of_state) {
    module.lengths.erase(name.text);
    return {pin->second, {}};
  }
  LengthSymbol made = name;
  if (!is_of_state) made.high = known.limits.extent(Length(std::make_shared<const LengthSymbol>(name))).bound;
  module.lengths[name.text] = made.high;
  const auto least = known.least.find(known.least.contains(name.text) ? name.text : "");
  if (least != known.least.end()) made.low = std::min(least->second, made.high - 1);
  const int64_t bound = made.high;
  return run_time_extent(bound, Length(std::make_shared<const LengthSymbol>(std::move(made))));
}

void bound_inputs(Module& module, const KnownLengths& known) {
  Graph& graph = module.graph;
  const std::set<std::string> of_states = names_of_states(module);
  for (ValueId input : graph.inputs()) {
    const bool is_state =
        std::ranges::any_of(module.states, [&](const State& state) { return state.input == graph.value(input).name; });
    if (is_state) continue;
    TensorType type = graph.type(input);
    for (Extent& extent : type.shape)
      if (const LengthSymbol* name = extent.is_run_time() ? as_name(*extent.length) : nullptr)
        extent = bounded(module, *name, known, of_states.contains(name->text));
    graph.retype(input, std::move(type));
  }
}

}  // namespace weftc

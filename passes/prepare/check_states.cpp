// A state's input and output are one buffer: equal types, and lengths that go on together.
#include "passes/prepare/check_states.h"

#include <algorithm>
#include <map>

namespace weftc {

namespace {

/// True if one buffer can hold both: equal dtypes and bounds.
bool same_storage(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.dims() != b.dims()) return false;
  for (int d = 0; d < a.ndim(); ++d)
    if (a.shape[d].is_run_time() != b.shape[d].is_run_time()) return false;
  return true;
}

/// States that share a length have next values that share one.
void check_shared_lengths(const Module& module, Diags& diags) {
  struct Grown {
    const State* state;
    Length length;  // of the next value
  };
  std::map<std::string, Grown> grown;  // by the length of the state
  for (const State& state : module.states) {
    const auto out = std::find_if(module.graph.outputs().begin(), module.graph.outputs().end(),
                                  [&](const Graph::Output& output) { return output.name == state.output; });
    const Shape& now = module.graph.type(module.graph.find_value(state.input)).shape;
    const Shape& next = module.graph.type(out->value).shape;
    for (size_t d = 0; d < now.size(); ++d) {
      if (!now[d].is_run_time() || !next[d].is_run_time()) continue;
      const auto [first, is_new] = grown.try_emplace(now[d].length->text(), Grown{&state, length_of(next[d])});
      const Length difference = length_of(next[d]) - first->second.length;
      if (!is_new && !(difference == Length(0)))
        diags.error("state-lengths", state.loc,
                    "'{}' and '{}' have one run-time length, but of their next values '{}' is {} longer than '{}': "
                    "states that grow apart need a dimension each",
                    first->second.state->input, state.input, state.output, difference.text(),
                    first->second.state->output);
    }
  }
}

/// A state is a tensor: an output that was a sequence has become others.
void check_outputs(const Module& module, Diags& diags) {
  for (const State& state : module.states)
    if (std::ranges::none_of(module.graph.outputs(), [&](const auto& out) { return out.name == state.output; }))
      diags.error("state-sequence", state.loc, "'{}' is a sequence or an optional, but a state is a tensor",
                  printable(state.output));
}

void check_types(const Module& module, Diags& diags) {
  const Graph& graph = module.graph;
  for (const State& state : module.states)
    for (const Graph::Output& out : graph.outputs()) {
      const TensorType& input = graph.type(graph.find_value(state.input));
      const TensorType& output = graph.type(out.value);
      if (out.name == state.output && !same_storage(input, output))
        diags.error("state-type", state.loc, "'{}' is {} but '{}' is {}: a state's input and output are one buffer",
                    state.input, type_text(input, {}), state.output, type_text(output, {}));
    }
}

}  // namespace

void check_states(const Module& module, Diags& diags) {
  for (const auto check : {check_outputs, check_types, check_shared_lengths})
    if (diags.ok()) check(module, diags);
}

}  // namespace weftc

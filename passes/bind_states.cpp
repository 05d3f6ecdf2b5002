// Binds the schedule's `state:` pairs to inputs and outputs of the model.
#include <algorithm>

#include "passes/passes.h"

namespace weft {

namespace {

const Graph::Output* find_output(const Graph& graph, const std::string& name) {
  for (const Graph::Output& out : graph.outputs())
    if (out.name == name) return &out;
  return nullptr;
}

bool same_shape(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.ndim() != b.ndim()) return false;
  for (int d = 0; d < a.ndim(); ++d) {
    const bool grows = bool(a.shape[d].count) || bool(b.shape[d].count);
    if (!grows && a.shape[d].bound != b.shape[d].bound) return false;
  }
  return true;
}

}  // namespace

void bind_states(Module& module, const Env& env) {
  const Graph& graph = module.graph;
  module.per_rank = env.schedule.per_rank;
  module.seed = env.schedule.seed;
  for (const StateRequest& request : env.schedule.states) {
    std::vector<std::string> inputs, outputs;
    for (ValueId v : graph.inputs()) inputs.push_back(graph.value(v).name);
    for (const Graph::Output& out : graph.outputs()) outputs.push_back(out.name);
    const ValueId input = graph.find_value(request.input);
    const Graph::Output* output = find_output(graph, request.output);
    if (!input || graph.producer_op(input).kind != OpKind::Input) {
      env.diags.error("state-input", request.loc, "the model has no input '{}'{}", request.input,
                      did_you_mean(request.input, inputs));
    } else if (!output) {
      env.diags.error("state-output", request.loc, "the model has no output '{}'{}", request.output,
                      did_you_mean(request.output, outputs));
    } else if (!same_shape(graph.type(input), graph.type(output->value))) {
      env.diags.error("state-type", request.loc, "'{}' is {} but '{}' is {}: a state's input and output are one buffer",
                      request.input, type_text(graph.type(input), {}), request.output,
                      type_text(graph.type(output->value), {}));
    } else {
      module.states.push_back({request.input, request.output, request.loc});
    }
  }
}

}  // namespace weft

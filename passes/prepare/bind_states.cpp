// Binds the schedule's `state:` pairs to inputs and outputs of the model.
#include <algorithm>

#include "passes/passes.h"

namespace weftc {

namespace {

const Graph::Output* find_output(const Graph& graph, const std::string& name) {
  for (const Graph::Output& out : graph.outputs())
    if (out.name == name) return &out;
  return nullptr;
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
    } else {
      module.states.push_back({request.input, request.output, request.loc});
    }
  }
}

}  // namespace weftc

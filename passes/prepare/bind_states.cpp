// Binds the schedule's `state:` pairs to inputs and outputs of the model. A pair may be a pattern:
//
//   {"past_k.{l}": "present_k.{l}"}   ->   past_k.0 and present_k.0, past_k.1 and present_k.1, ...
#include <algorithm>

#include "ir/base/contains.h"
#include "passes/passes.h"
#include "passes/select.h"

namespace weftc {

namespace {

class StateBinder {
 public:
  StateBinder(Module& module, Diags& diags) : module_(module), diags_(diags) {
    for (const ValueId v : module.graph.inputs()) inputs_.push_back(module.graph.value(v).name);
    for (const Graph::Output& out : module.graph.outputs()) outputs_.push_back(out.name);
  }

  void bind(const StateRequest& request) {
    if (contains(inputs_, request.input)) return bind_pair(request, request.input, request.output);
    bool matched = false;
    for (const std::string& input : inputs_)
      if (const std::optional<Bindings> bindings = NamePattern(request.input).match(input)) {
        bind_pair(request, input, substitute(request.output, *bindings));
        matched = true;
      }
    if (!matched)
      diags_.error("state-input", request.loc, "the model has no input '{}'{}", request.input,
                   did_you_mean(request.input, inputs_));
  }

 private:
  void bind_pair(const StateRequest& request, const std::string& input, const std::string& output) {
    if (!contains(outputs_, output))
      diags_.error("state-output", request.loc, "the model has no output '{}'{}", output,
                   did_you_mean(output, outputs_));
    else if (const State* other = find_state(input, output))
      diags_.error("state-twice", request.loc, "'{}' with '{}' and '{}' with '{}' cannot both be states", other->input,
                   other->output, input, output);
    else
      module_.states.push_back({input, output, request.loc});
  }

  /// A state that has this input or this output.
  const State* find_state(const std::string& input, const std::string& output) const {
    const auto found = std::find_if(module_.states.begin(), module_.states.end(),
                                    [&](const State& s) { return s.input == input || s.output == output; });
    return found == module_.states.end() ? nullptr : &*found;
  }

  Module& module_;
  Diags& diags_;
  std::vector<std::string> inputs_, outputs_;
};

}  // namespace

void bind_states(Module& module, const Env& env) {
  module.per_rank = env.schedule.per_rank;
  module.seed = env.schedule.seed;
  StateBinder binder(module, env.diags);
  for (const StateRequest& request : env.schedule.states) binder.bind(request);
}

}  // namespace weftc

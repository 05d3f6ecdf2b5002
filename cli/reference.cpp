// Makes inputs from a seed and evaluates the graph as the model has it, so that no pass hides its own mistake.
#include "cli/reference.h"

#include <algorithm>

#include "ir/evaluate/evaluate.h"

namespace weftc {

namespace {

constexpr uint64_t kSeed = 1;

/// The type with run-time lengths below their bounds: elements that lie as if a length were its bound must show. A
/// state that grows needs room besides.
TensorType at_run_time(TensorType type, bool has_states) {
  for (Extent& e : type.shape)
    if (e.is_run_time()) e = {has_states ? e.bound / 2 : (2 * e.bound + 1) / 3, {}};
  return type;
}

/// An input for each name, the same on every machine.
std::map<std::string, Tensor> seeded_inputs(const Module& module) {
  std::map<std::string, Tensor> inputs;
  for (const ValueId id : module.graph.inputs()) {
    const Mesh mesh = module.mesh(module.graph, module.graph.producer_op(id).place);
    const std::string& name = module.graph.value(id).name;
    const TensorType type = at_run_time(module.graph.type(id), !module.states.empty());
    inputs.emplace(name, seeded_tensor(name, type.dtype, stacked_dims(type, mesh), kSeed));
  }
  return inputs;
}

/// One iteration; with states as many as show that they are carried on: three, or fewer where a state that grows would
/// pass its bound. Sets how many.
EvalResult evaluate_iterations(const Module& module, KnownData& data) {
  constexpr size_t kWithStates = 3;
  const std::vector<std::vector<Tensor>> inputs(module.states.empty() ? 1 : kWithStates, inputs_in_order(module, data));
  std::vector<EvalResult> results = evaluate_invocations(module, inputs);
  if (results.size() > 1 && !results.back().error.empty()) results.pop_back();
  data.iterations = static_cast<int>(results.size());
  return std::move(results.back());
}

}  // namespace

std::vector<Tensor> inputs_in_order(const Module& module, const KnownData& data) {
  std::vector<Tensor> inputs;
  for (const ValueId id : module.graph.inputs()) inputs.push_back(data.inputs.at(module.graph.value(id).name));
  return inputs;
}

KnownData reference_data(const Compilation& c, const Options& options, Diags& diags) {
  KnownData data;
  data.inputs = seeded_inputs(c.module);
  std::unique_ptr<Compilation> source;
  if (!c.schedule.per_rank) {
    Options until = options;
    until.stop_after = "decompose";
    until.skip_passes = {"simplify"};
    source = compile_graph(until, diags);
    if (!source) return data;
  }
  const Module& reference = source ? source->module : c.module;
  const EvalResult result = evaluate_iterations(reference, data);
  if (!result.error.empty()) {
    diags.error("reference", Loc::in_file(options.model), "the reference evaluation failed: {}", result.error);
    return data;
  }
  for (size_t i = 0; i < result.outputs.size(); ++i)
    data.outputs.emplace(reference.graph.outputs()[i].name, result.outputs[i]);
  return data;
}

}  // namespace weftc

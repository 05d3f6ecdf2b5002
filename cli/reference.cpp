// Makes inputs from a seed and evaluates the graph as the model has it, so that no pass hides its own mistake.
#include "cli/reference.h"

#include <algorithm>

#include "cli/request_lengths.h"
#include "ir/evaluate/evaluate.h"

namespace weftc {

namespace {

constexpr uint64_t kSeed = 1;
constexpr size_t kWithStates = 3;  // iterations that show that states are carried on

/// The type with these numbers for its run-time lengths.
TensorType at_run_time(TensorType type, const std::map<std::string, int64_t>& lengths) {
  for (Extent& e : type.shape)
    if (e.is_run_time()) e = {lengths.at(e.length->text()), {}};
  return type;
}

/// An input for each name, the same on every machine.
std::map<std::string, Tensor> seeded_inputs(const Module& module, const std::map<std::string, int64_t>& lengths) {
  std::map<std::string, Tensor> inputs;
  for (const ValueId id : module.graph.inputs()) {
    const Mesh mesh = module.mesh(module.graph, module.graph.producer_op(id).place);
    const std::string& name = module.graph.value(id).name;
    const TensorType type = at_run_time(module.graph.type(id), lengths);
    inputs.emplace(name, seeded_tensor(name, type.dtype, stacked_dims(type, mesh), kSeed));
  }
  for (const State& state : module.states) {
    Tensor& first = inputs.at(state.input);
    if (state.initial) first = module.constants.tensor(state.initial);
    if (!state.of.empty()) first = Tensor(first.dtype, first.dims);  // a mean of squares is not below 0
  }
  // A program trains unless it is told to evaluate samples.
  if (module.training)
    if (const auto evaluates = inputs.find(module.training->evaluates); evaluates != inputs.end())
      evaluates->second = Tensor(evaluates->second.dtype, evaluates->second.dims);
  return inputs;
}

/// `most` iterations, or fewer if a growing state would exceed its bound. Sets their number.
EvalResult evaluate_iterations(const Module& module, size_t most, KnownData& data) {
  const std::vector<std::vector<Tensor>> inputs(most, inputs_in_order(module, data));
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
  const std::map<std::string, int64_t> lengths = request_lengths(c.module);
  data.inputs = seeded_inputs(c.module, lengths);
  std::unique_ptr<Compilation> source;
  if (!c.schedule.per_rank) {
    Options until = options;
    until.stop_after = "decompose";
    until.skip_passes = {"simplify"};
    source = compile_graph(until, diags);
    if (!source) return data;
  }
  const Module& reference = source ? source->module : c.module;
  const size_t most = c.module.states.empty() ? 1 : request_count(c.module, lengths, kWithStates);
  const EvalResult result = evaluate_iterations(reference, most, data);
  if (!result.error.empty()) {
    diags.error("reference", Loc::in_file(options.model), "the reference evaluation failed: {}", result.error);
    return data;
  }
  for (size_t i = 0; i < result.outputs.size(); ++i)
    data.outputs.emplace(reference.graph.outputs()[i].name, result.outputs[i]);
  return data;
}

}  // namespace weftc

// The outermost frame of the reference evaluation: it scatters the model's inputs over the ranks, runs the
// graph, and assembles the outputs. The ops themselves run in evaluate_frame.cpp, regions in
// evaluate_region.cpp.
#include "ir/evaluate/evaluate.h"

#include <algorithm>

#include "ir/base/text.h"
#include "ir/evaluate/evaluate_frame.h"
#include "ir/local_op.h"

namespace weftc {

/// Returns the error in an input tensor, or "". A dim of run-time length may be shorter than its bound.
static std::string check_input(const Tensor& tensor, const TensorType& type, const Mesh& mesh) {
  if (tensor.dtype != type.dtype)
    return format("has element type {}, expected {}", dtype_name(tensor.dtype), dtype_name(type.dtype));
  const Dims dims = stacked_dims(type, mesh);
  const size_t copies = dims.size() - type.shape.size();
  bool fits = tensor.dims.size() == dims.size();
  for (size_t d = 0; fits && d < dims.size(); ++d) {
    const bool grows = d >= copies && type.shape[d - copies].is_run_time();
    fits = grows ? tensor.dims[d] <= dims[d] : tensor.dims[d] == dims[d];
  }
  return fits ? "" : format("has shape {}, expected {}", dims_text(tensor.dims), type_text(type, mesh));
}

/// For each of graph.inputs() the number of the model's input: copies in several places have the same one.
static std::vector<size_t> input_ports(const Graph& graph) {
  std::vector<size_t> ports;
  for (ValueId v : graph.inputs())
    ports.push_back(static_cast<size_t>(graph.producer_op(v).port.value_or(static_cast<int>(ports.size()))));
  return ports;
}

/// Checks the inputs and gives each rank its slice of them.
static bool bind_module_inputs(const Module& module, const std::vector<Tensor>& inputs, Frame& frame,
                               std::map<std::string, int64_t>& lengths, std::string& error) {
  const Graph& graph = module.graph;
  const std::vector<size_t> ports = input_ports(graph);
  const size_t expected = ports.empty() ? 0 : 1 + *std::max_element(ports.begin(), ports.end());
  if (inputs.size() != expected)
    return error = format("{} inputs given, the model has {}", inputs.size(), expected), false;
  for (size_t p = 0; p < ports.size(); ++p) {
    const size_t i = ports[p];
    const ValueId value = graph.inputs()[p];
    const Mesh mesh = module.mesh(graph, place_of(graph, value));
    const std::string wrong = check_input(inputs[i], graph.type(value), mesh);
    if (!wrong.empty()) return error = format("input '{}' {}", graph.value(value).name, wrong), false;
    const Shape& shape = graph.type(value).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (!shape[d].is_run_time()) continue;
      const int64_t length = inputs[i].dims[inputs[i].dims.size() - shape.size() + d];
      const auto [known, is_new] = lengths.emplace(shape[d].length->text(), length);
      if (known->second != length)
        return error = format("input '{}' has length {} on dimension {}, but another has {} there",
                              graph.value(value).name, length, d, known->second),
               false;
    }
    frame.store(value, scatter(inputs[i], graph.type(value), mesh));
  }
  return true;
}

EvalResult evaluate(const Module& module, const std::vector<Tensor>& inputs, const EvalOptions& options) {
  const Graph& graph = module.graph;
  Evaluation run{module, options.observe, {module.seed, 0, options.invocation}};
  Frame frame(run, graph, {});
  EvalResult result;
  if (!bind_module_inputs(module, inputs, frame, run.lengths, result.error)) return result;
  if (!frame.run(true)) return result.error = run.error, result;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId value = graph.outputs()[i].value;
    std::string why;
    std::optional<Tensor> whole =
        assemble(frame.output(i), graph.type(value), module.mesh(graph, place_of(graph, value)), why);
    if (!whole) {
      result.error = format("output '{}': {}", graph.outputs()[i].name, why);
      result.outputs.clear();
      return result;
    }
    result.outputs.push_back(std::move(*whole));
  }
  return result;
}

/// Copies the outputs that are states to their inputs, for the next invocation. Returns "" or a mismatch.
static std::string feed_states(const Module& module, const std::vector<Tensor>& outputs, std::vector<Tensor>& inputs) {
  const Graph& graph = module.graph;
  const std::vector<size_t> ports = input_ports(graph);
  for (const State& state : module.states) {
    const auto from = std::find_if(graph.outputs().begin(), graph.outputs().end(),
                                   [&](const Graph::Output& out) { return out.name == state.output; });
    const auto to = std::find(graph.inputs().begin(), graph.inputs().end(), graph.find_value(state.input));
    if (from == graph.outputs().end() || to == graph.inputs().end())
      return format("state '{}: {}' names no input and output", state.input, state.output);
    inputs[ports[to - graph.inputs().begin()]] = outputs[from - graph.outputs().begin()];
  }
  return "";
}

std::vector<EvalResult> evaluate_invocations(const Module& module, const std::vector<std::vector<Tensor>>& inputs,
                                             const EvalOptions& options) {
  std::vector<EvalResult> results;
  EvalOptions each = options;
  for (const std::vector<Tensor>& given : inputs) {
    std::vector<Tensor> fed = given;
    if (!results.empty()) {
      const std::string wrong = feed_states(module, results.back().outputs, fed);
      if (!wrong.empty()) return results.push_back({{}, wrong}), results;
    }
    results.push_back(evaluate(module, fed, each));
    if (!results.back().error.empty()) return results;
    ++each.invocation;
  }
  return results;
}

}  // namespace weftc

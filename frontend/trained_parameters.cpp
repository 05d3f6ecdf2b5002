#include "frontend/trained_parameters.h"

#include <unordered_map>
#include <unordered_set>

#include "frontend/sort_nodes.h"

namespace weftc {

namespace {

using Names = std::unordered_set<std::string>;

/// Statistics are means of what went through a layer, and scales say what shape an image gets; no derivative changes
/// them.
bool is_trained_through(const OnnxNode& node, size_t operand) {
  const bool is_statistic = node.op_type == "BatchNormalization" && operand > 2;
  const bool is_scale = (node.op_type == "Resize" || node.op_type == "Upsample") && operand > 0;
  return !is_statistic && !is_scale;
}

/// What a node reads, in its subgraphs too, with or without the operands that no derivative changes.
std::vector<std::string> read_by(const OnnxNode& node, bool with_untrained) {
  std::vector<std::string> names;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (with_untrained || is_trained_through(node, i)) names.push_back(node.inputs[i]);
  std::vector<const OnnxGraph*> graphs;
  for (const OnnxAttr& attr : node.attrs)
    for (const OnnxGraph& graph : attr.graphs) graphs.push_back(&graph);
  const std::vector<std::string> captured = free_names(graphs);
  names.insert(names.end(), captured.begin(), captured.end());
  return names;
}

/// The values that the loss is computed from.
Names sources_of(const OnnxModel& model, const std::string& loss, bool with_untrained) {
  std::unordered_map<std::string, const OnnxNode*> makers;
  for (const OnnxNode& node : model.graph.nodes)
    for (const std::string& output : node.outputs) makers.emplace(output, &node);
  Names reached{loss};
  std::vector<std::string> open{loss};
  while (!open.empty()) {
    const auto maker = makers.find(open.back());
    open.pop_back();
    if (maker == makers.end()) continue;
    for (const std::string& operand : read_by(*maker->second, with_untrained))
      if (reached.insert(operand).second) open.push_back(operand);
  }
  return reached;
}

/// What any node takes as an operand that a derivative could change.
Names trained_operands(const OnnxModel& model) {
  Names names;
  for (const OnnxNode& node : model.graph.nodes)
    for (const std::string& name : read_by(node, false)) names.insert(name);
  return names;
}

}  // namespace

ParameterTensors find_parameters(const OnnxModel& model, const std::string& loss) {
  const Names trained = sources_of(model, loss, false), of_loss = sources_of(model, loss, true),
              operands = trained_operands(model);
  ParameterTensors found;
  for (const OnnxTensor& tensor : model.graph.initialisers) {
    const std::optional<DType> dtype = dtype_of_element_type(tensor.element_type);
    if (!dtype || !is_float(*dtype) || tensor.dims.empty()) continue;
    if (trained.contains(tensor.name))
      found.trainable.push_back(&tensor);
    else if (!of_loss.contains(tensor.name) && operands.contains(tensor.name))
      found.apart.push_back(&tensor);
  }
  return found;
}

}  // namespace weftc

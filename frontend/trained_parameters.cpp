#include "frontend/trained_parameters.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "frontend/parameter_roles.h"
#include "frontend/sort_nodes.h"
#include "ir/base/contains.h"

namespace weftc {

namespace {

using Names = std::unordered_set<std::string>;

/// False for operands that no derivative changes: statistics are means of a layer's inputs, and scales determine an
/// image's shape.
bool is_trained_through(const OnnxNode& node, size_t operand) {
  const bool is_statistic = node.op_type == "BatchNormalization" && operand > 2;
  const bool is_scale = (node.op_type == "Resize" || node.op_type == "Upsample") && operand > 0;
  return !is_statistic && !is_scale;
}

/// The names that a node reads, also in its subgraphs, with or without the operands that no derivative changes.
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

/// All operands of nodes that a derivative could change.
Names trained_operands(const OnnxModel& model) {
  Names names;
  for (const OnnxNode& node : model.graph.nodes)
    for (const std::string& name : read_by(node, false)) names.insert(name);
  return names;
}

const std::string kParameter = "PARAMETER";

std::string kind_of(const OnnxModel& model, const std::string& name) {
  const auto mark = model.marks.find(name);
  return mark == model.marks.end() ? "" : mark->second.kind;
}

/// Older exporters do not record the sources of computed initialisers: a parameter may then be absent from the file.
bool lacks_parameters(const OnnxModel& model) {
  Names present;
  for (const OnnxTensor& tensor : model.graph.initialisers) present.insert(tensor.name);
  for (const auto& [name, mark] : model.marks) present.insert(mark.folded_from.begin(), mark.folded_from.end());
  return std::ranges::any_of(model.marks, [&](const auto& entry) {
    return entry.second.kind == kParameter && !present.contains(entry.first);
  });
}

class ParameterFinder {
 public:
  ParameterFinder(OnnxModel& model, ParameterTensors& found)
      : model_(model), found_(found), is_marked_(has_marks(model)), lacks_(lacks_parameters(model)), roles_(model) {
    found_.is_guessed = !is_marked_ || lacks_;
  }

  bool is_marked() const { return is_marked_; }

  bool is_parameter(const OnnxTensor& tensor) {
    if (!is_marked_) return roles_.is_parameter(tensor);
    const std::string kind = kind_of(model_, tensor.name);
    if (!kind.empty()) return kind == kParameter;
    const std::vector<std::string> sources = parameters_after(model_, tensor.name);
    if (sources.empty()) return lacks_ && roles_.is_parameter(tensor);
    note_computed(tensor, sources);
    return true;
  }

  /// True for a scalar of a formula.
  bool is_number(const OnnxTensor& tensor) const { return tensor.dims.empty() && !roles_.is_named_factor(tensor); }

 private:
  /// An initialiser computed from a single parameter that is not in the file is that parameter with its dims permuted.
  void note_computed(const OnnxTensor& tensor, const std::vector<std::string>& sources) {
    const bool is_elsewhere = std::ranges::any_of(model_.graph.initialisers,
                                                  [&](const OnnxTensor& each) { return contains(sources, each.name); });
    if (is_elsewhere || model_.marks.at(tensor.name).folded_from.size() > 1)
      found_.computed.push_back({&tensor, sources});
  }

  OnnxModel& model_;
  ParameterTensors& found_;
  const bool is_marked_, lacks_;
  ParameterRoles roles_;
};

}  // namespace

bool has_marks(const OnnxModel& model) {
  return std::ranges::any_of(model.marks, [](const auto& entry) { return entry.second.kind == kParameter; });
}

std::vector<std::string> parameters_after(const OnnxModel& model, const std::string& name) {
  const auto mark = model.marks.find(name);
  if (mark == model.marks.end()) return {};
  std::vector<std::string> sources;
  for (const std::string& source : mark->second.folded_from)
    if (kind_of(model, source) == kParameter) sources.push_back(source);
  return sources;
}

ParameterTensors find_parameters(OnnxModel& model, const std::string& loss) {
  const Names trained = sources_of(model, loss, false), of_loss = sources_of(model, loss, true),
              operands = trained_operands(model);
  ParameterTensors found;
  ParameterFinder finder(model, found);
  for (const OnnxTensor& tensor : model.graph.initialisers) {
    const std::optional<DType> dtype = dtype_of_element_type(tensor.element_type);
    if (!dtype || !is_float(*dtype)) continue;
    const bool is_needed = trained.contains(tensor.name);
    if (!is_needed && (of_loss.contains(tensor.name) || !operands.contains(tensor.name))) continue;
    const bool is_parameter = finder.is_parameter(tensor), is_scalar = tensor.dims.empty();
    if (!is_needed && (is_parameter || (!finder.is_marked() && !is_scalar))) found.apart.push_back(&tensor);
    if (!is_needed) continue;
    (is_parameter ? found.trainable : finder.is_number(tensor) ? found.numbers : found.constants).push_back(&tensor);
  }
  return found;
}

}  // namespace weftc

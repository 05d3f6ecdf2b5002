// The modifiers of a FlexAttention become nodes of the graph around it, under names of their own, so that later code
// does not handle modifiers. Values that they read from outside stay the same.
//
//   [f] y = FlexAttention <score_mod = (s) => (t) { t = Add(s, bias) }> (q, k, v)
//
//   "f/scores" = weft.AttentionScores(q, k)      "f/score_mod/t" = Add("f/scores", bias)
//   "f/probabilities" = Softmax("f/score_mod/t")      y = weft.AttentionMix("f/probabilities", v)
#include "frontend/unfold_attention.h"

#include <unordered_map>

#include "frontend/fresh_names.h"

namespace weftc {

namespace {

using Renames = std::unordered_map<std::string, std::string>;

class AttentionUnfolder {
 public:
  AttentionUnfolder(OnnxModel& model, Diags& diags) : model_(model), diags_(diags), names_(model.graph) {}

  bool run() {
    unfold(model_.graph);
    return ok_;
  }

 private:
  void unfold(OnnxGraph& graph);
  void unfold(const OnnxNode& attention, OnnxGraph& graph, std::vector<OnnxNode>& into);
  /// Appends the modifier's nodes to `into`; returns the name of its result.
  std::string modified(const OnnxNode& attention, const std::string& modifier, const std::string& value,
                       OnnxGraph& graph, std::vector<OnnxNode>& into);
  void rename(OnnxGraph& graph, Renames names, const std::string& prefix);
  void rename(std::vector<OnnxNode>& nodes, Renames& names, const std::string& prefix);

  OnnxModel& model_;
  Diags& diags_;
  FreshNames names_;
  bool ok_ = true;
};

/// Results of nodes get new names first: a graph may list nodes before the producers of their inputs.
void AttentionUnfolder::rename(std::vector<OnnxNode>& nodes, Renames& names, const std::string& prefix) {
  for (const OnnxNode& node : nodes)
    for (const std::string& output : node.outputs)
      if (!output.empty()) names[output] = names_.fresh(prefix + output);
  const auto renamed = [&](std::string& name) {
    if (const auto at = names.find(name); at != names.end()) name = at->second;
  };
  for (OnnxNode& node : nodes) {
    if (!node.name.empty()) node.name = prefix + node.name;
    for (std::string& input : node.inputs) renamed(input);
    for (std::string& output : node.outputs) renamed(output);
    for (OnnxAttr& attr : node.attrs)
      for (OnnxGraph& inner : attr.graphs) rename(inner, names, prefix);
  }
}

/// Renames a subgraph inside a modifier; `names` is a copy, because names defined in it are not visible outside.
void AttentionUnfolder::rename(OnnxGraph& graph, Renames names, const std::string& prefix) {
  for (OnnxValue& input : graph.inputs) input.name = names[input.name] = names_.fresh(prefix + input.name);
  for (OnnxTensor& tensor : graph.initialisers) {
    const bool is_input = names.contains(tensor.name) && names[tensor.name] != tensor.name;
    tensor.name = is_input ? names[tensor.name] : names[tensor.name] = names_.fresh(prefix + tensor.name);
  }
  rename(graph.nodes, names, prefix);
  for (OnnxValue& output : graph.outputs)
    if (const auto at = names.find(output.name); at != names.end()) output.name = at->second;
}

std::string AttentionUnfolder::modified(const OnnxNode& attention, const std::string& modifier,
                                        const std::string& value, OnnxGraph& graph, std::vector<OnnxNode>& into) {
  const OnnxAttr* attr = attention.find(modifier);
  if (!attr) return value;
  if (attr->graphs.size() != 1 || attr->graphs[0].inputs.size() != 1 || attr->graphs[0].outputs.size() != 1) {
    diags_.error("attention-modifier", model_.loc(attention, 0), "'{}' must be a graph with one input and one output",
                 modifier);
    ok_ = false;
    return value;
  }
  OnnxGraph body = attr->graphs[0];
  const std::string prefix = shown_name(attention) + "/" + modifier + "/";
  Renames names{{body.inputs[0].name, value}};
  for (OnnxTensor& tensor : body.initialisers) {
    tensor.name = names[tensor.name] = names_.fresh(prefix + tensor.name);
    graph.initialisers.push_back(std::move(tensor));
  }
  rename(body.nodes, names, prefix);
  for (OnnxNode& node : body.nodes) into.push_back(std::move(node));
  const auto result = names.find(body.outputs[0].name);
  return result == names.end() ? body.outputs[0].name : result->second;
}

/// A node of the attention; `part` distinguishes the names of its parts.
OnnxNode part_of(const OnnxNode& attention, const std::string& part, const std::string& op_type,
                 const std::string& domain, int opset) {
  OnnxNode made;
  made.name = shown_name(attention) + part;
  made.op_type = op_type;
  made.domain = domain;
  made.opset = opset;
  made.modules = attention.modules;
  made.line = attention.line;
  made.column = attention.column;
  return made;
}

void AttentionUnfolder::unfold(const OnnxNode& attention, OnnxGraph& graph, std::vector<OnnxNode>& into) {
  if (attention.inputs.size() != 3 || attention.outputs.size() != 1) {
    diags_.error("attention-operands", model_.loc(attention, 0),
                 "FlexAttention takes 3 inputs and makes 1 output, not {} and {}", attention.inputs.size(),
                 attention.outputs.size());
    ok_ = false;
    return;
  }
  const std::string own = shown_name(attention);
  OnnxNode scores = part_of(attention, "/scores", "AttentionScores", "weft", 1);
  scores.inputs = {attention.inputs[0], attention.inputs[1]};
  scores.outputs = {names_.fresh(own + "/scores")};
  for (const OnnxAttr& attr : attention.attrs)
    if (attr.graphs.empty()) scores.attrs.push_back(attr);
  std::string value = scores.outputs[0];
  into.push_back(std::move(scores));
  value = modified(attention, "score_mod", value, graph, into);
  OnnxNode softmax = part_of(attention, "/softmax", "Softmax", "", 13);
  softmax.inputs = {value};
  softmax.outputs = {names_.fresh(own + "/probabilities")};
  value = softmax.outputs[0];
  into.push_back(std::move(softmax));
  value = modified(attention, "prob_mod", value, graph, into);
  OnnxNode mix = part_of(attention, "", "AttentionMix", "weft", 1);
  mix.inputs = {value, attention.inputs[2]};
  mix.outputs = attention.outputs;
  into.push_back(std::move(mix));
}

/// Handles subgraphs first: a modifier may contain an attention.
void AttentionUnfolder::unfold(OnnxGraph& graph) {
  std::vector<OnnxNode> nodes;
  nodes.reserve(graph.nodes.size());
  for (OnnxNode& node : graph.nodes) {
    for (OnnxAttr& attr : node.attrs)
      for (OnnxGraph& inner : attr.graphs) unfold(inner);
    if (node.op_type == "FlexAttention" && node.domain == "ai.onnx.preview")
      unfold(node, graph, nodes);
    else
      nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace

bool unfold_attention(OnnxModel& model, Diags& diags) { return AttentionUnfolder(model, diags).run(); }

}  // namespace weftc

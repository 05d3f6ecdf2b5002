#include "frontend/share_nodes.h"

#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "frontend/sort_nodes.h"

namespace weftc {

namespace {

/// The key by which equal nodes are found: everything except their results. Nothing for nodes with tensors or graphs.
std::optional<std::string> key_of(const OnnxNode& node) {
  std::string key = node.domain + "\n" + node.op_type + "\n" + std::to_string(node.opset) + "\n";
  for (const std::string& input : node.inputs) key += input + "\n";
  std::map<std::string, std::string> attrs;
  for (const OnnxAttr& attr : node.attrs) {
    if (!attr.graphs.empty() || !attr.tensors.empty()) return {};
    std::string& text = attrs[attr.name];
    text = format("{} {} {} {}", static_cast<int>(attr.kind), attr.integer, shortest(attr.real), attr.text);
    for (const int64_t i : attr.ints) text += format(" {}", i);
    for (const double r : attr.reals) text += " " + shortest(r);
    for (const std::string& t : attr.texts) text += "\n" + t;
  }
  for (const auto& [name, text] : attrs) key += name + "=" + text + "\n";
  return key;
}

/// Random nodes are not shared: two draws are two numbers.
bool is_random(const OnnxNode& node) {
  static const std::unordered_set<std::string> kDraws = {
      "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  return kDraws.contains(node.op_type);
}

/// Names that outputs and subgraphs use.
std::unordered_set<std::string> names_to_keep(const OnnxGraph& graph) {
  std::vector<const OnnxGraph*> graphs;
  for (const OnnxNode& node : graph.nodes)
    for (const OnnxAttr& attr : node.attrs)
      for (const OnnxGraph& inner : attr.graphs) graphs.push_back(&inner);
  const std::vector<std::string> captured = free_names(graphs);
  std::unordered_set<std::string> names(captured.begin(), captured.end());
  for (const OnnxValue& output : graph.outputs) names.insert(output.name);
  return names;
}

}  // namespace

void share_equal_nodes(OnnxGraph& graph) {
  const std::unordered_set<std::string> fixed = names_to_keep(graph);
  std::unordered_map<std::string, const OnnxNode*> seen;
  std::unordered_map<std::string, std::string> same;
  std::vector<OnnxNode> kept;
  kept.reserve(graph.nodes.size());
  for (OnnxNode& node : graph.nodes) {
    for (std::string& input : node.inputs)
      if (const auto other = same.find(input); other != same.end()) input = other->second;
    const bool may_be_shared = node.call_site >= 0 && node.outputs.size() == 1 && !is_random(node);
    const std::optional<std::string> key = may_be_shared ? key_of(node) : std::nullopt;
    const auto equal = key ? seen.find(*key) : seen.end();
    if (equal != seen.end() && !fixed.contains(node.outputs[0])) {
      same[node.outputs[0]] = equal->second->outputs[0];
      continue;
    }
    kept.push_back(std::move(node));
    if (key) seen.emplace(*key, &kept.back());
  }
  graph.nodes = std::move(kept);
}

}  // namespace weftc

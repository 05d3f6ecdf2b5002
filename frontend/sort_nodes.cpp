// Sorts nodes topologically and finds values that subgraphs read from outside, both by names, before a graph is built.
#include "frontend/sort_nodes.h"

#include <functional>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "frontend/onnx_ops.h"

namespace weftc {

namespace {

/// Collects names that are read before the subgraph defines them.
class FreeNames {
 public:
  void visit(const OnnxGraph& graph, std::unordered_set<std::string> inner) {
    for (const OnnxValue& input : graph.inputs) inner.insert(input.name);
    for (const OnnxTensor& tensor : graph.initialisers) inner.insert(tensor.name);
    for (const OnnxNode& node : graph.nodes) {
      for (const std::string& input : node.inputs) use(input, inner);
      for (const OnnxAttr& attr : node.attrs)
        for (const OnnxGraph& nested : attr.graphs) visit(nested, inner);
      inner.insert(node.outputs.begin(), node.outputs.end());
    }
    for (const OnnxValue& output : graph.outputs) use(output.name, inner);
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  void use(const std::string& name, const std::unordered_set<std::string>& inner) {
    if (!name.empty() && !inner.contains(name) && seen_.insert(name).second) names_.push_back(name);
  }

  std::vector<std::string> names_;
  std::unordered_set<std::string> seen_;
};

/// The dependencies of the nodes of one graph, by node number.
struct NodeReaders {
  std::vector<std::vector<size_t>> readers;  // of each node
  std::vector<size_t> missing;               // how many nodes each node still waits for
};

/// The operands of a node, and the values that its subgraphs read from outside.
std::vector<std::string> names_read(const OnnxNode& node) {
  std::vector<const OnnxGraph*> graphs;
  for (const OnnxAttr& attr : node.attrs)
    for (const OnnxGraph& graph : attr.graphs) graphs.push_back(&graph);
  std::vector<std::string> names = free_names(graphs);
  names.insert(names.end(), node.inputs.begin(), node.inputs.end());
  return names;
}

/// For each node, the nodes that read its results and therefore wait for it.
NodeReaders waiting_of(const std::vector<OnnxNode>& nodes) {
  std::unordered_map<std::string, size_t> makers;
  for (size_t n = 0; n < nodes.size(); ++n)
    for (const std::string& output : nodes[n].outputs)
      if (!output.empty()) makers.emplace(output, n);
  NodeReaders waiting{std::vector<std::vector<size_t>>(nodes.size()), std::vector<size_t>(nodes.size())};
  for (size_t n = 0; n < nodes.size(); ++n)
    for (const std::string& name : names_read(nodes[n])) {
      const auto maker = makers.find(name);
      if (maker == makers.end()) continue;
      waiting.readers[maker->second].push_back(n);
      ++waiting.missing[n];
    }
  return waiting;
}

/// The sorted order. The next node is always the first one in the file that is ready, so a sorted file keeps its order.
std::vector<size_t> sorted_order(NodeReaders waiting) {
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  const size_t count = waiting.missing.size();
  for (size_t n = 0; n < count; ++n)
    if (waiting.missing[n] == 0) ready.push(n);
  std::vector<size_t> order;
  std::vector<bool> placed(count);
  for (; !ready.empty();) {
    const size_t n = ready.top();
    ready.pop();
    order.push_back(n);
    placed[n] = true;
    for (const size_t reader : waiting.readers[n])
      if (--waiting.missing[reader] == 0) ready.push(reader);
  }
  for (size_t n = 0; n < count; ++n)
    if (!placed[n]) order.push_back(n);
  return order;
}

}  // namespace

std::vector<std::string> free_names(const std::vector<const OnnxGraph*>& graphs) {
  FreeNames free;
  for (const OnnxGraph* graph : graphs) free.visit(*graph, {});
  return free.names();
}

void sort_nodes(OnnxGraph& graph) {
  for (OnnxNode& node : graph.nodes)
    for (OnnxAttr& attr : node.attrs)
      for (OnnxGraph& nested : attr.graphs) sort_nodes(nested);
  std::vector<OnnxNode> nodes;
  for (const size_t n : sorted_order(waiting_of(graph.nodes))) nodes.push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(nodes);
}

void drop_repeated_constants(const OnnxModel& model, OnnxGraph& graph, Diags& diags) {
  std::unordered_map<std::string, size_t> last;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (is_constant_node(graph.nodes[n]) && graph.nodes[n].outputs.size() == 1) last[graph.nodes[n].outputs[0]] = n;
  std::vector<OnnxNode> kept;
  std::vector<std::string> dropped;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    OnnxNode& node = graph.nodes[n];
    const auto known = node.outputs.size() == 1 ? last.find(node.outputs[0]) : last.end();
    if (is_constant_node(node) && known != last.end() && known->second != n)
      dropped.push_back(node.outputs[0]);
    else
      kept.push_back(std::move(node));
  }
  graph.nodes = std::move(kept);
  if (!dropped.empty())
    diags.warning("constant-repeated", Loc::in_file(model.file),
                  "{} Constant nodes have the name of a later one ('{}' is the first): the last one counts",
                  dropped.size(), printable(dropped[0]));
  for (OnnxNode& node : graph.nodes)
    for (OnnxAttr& attr : node.attrs)
      for (OnnxGraph& nested : attr.graphs) drop_repeated_constants(model, nested, diags);
}

}  // namespace weftc

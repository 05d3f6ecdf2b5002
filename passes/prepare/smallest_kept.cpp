// Each value is two nodes of a network; the edge between them has the price of keeping the value, so a cut through it
// keeps it. An op on the sink's side of the cut is recomputed, which cuts its edge from the source; its operands are
// needed then too.
#include "passes/prepare/smallest_kept.h"

#include <unordered_map>

#include "ir/op_def.h"

namespace weftc {

namespace {

class KeepingNetwork {
 public:
  KeepingNetwork(const Graph& graph, const TrainingPasses& passes, const KeepingPrices& prices)
      : graph_(graph), passes_(passes), prices_(prices) {}

  KeptValues run() {
    for (OpId id = graph_.first(); id; id = graph_.next(id))
      if (passes_.is_forward(id) && !is_given(graph_.op(id))) add(id);
    for (const OpId id : passes_.late())
      for (const ValueId v : graph_.op(id).inputs)
        if (passes_.is_made_forward(graph_, v))
          network_.add_edge(nodes_.at(v) + 1, FlowNetwork::kSink, FlowNetwork::kUnlimited);
    const std::vector<bool> is_after = network_.after_smallest_cut();
    KeptValues kept;
    for (const auto& [value, node] : nodes_)
      if (!is_after[node] && is_after[node + 1]) kept.insert(value);
    return kept;
  }

 private:
  void add(OpId id) {
    const Op& op = graph_.op(id);
    const int done = network_.add_node();
    network_.add_edge(FlowNetwork::kSource, done, prices_.again(id));
    for (const ValueId v : op.inputs)
      if (passes_.is_made_forward(graph_, v)) network_.add_edge(nodes_.at(v) + 1, done, FlowNetwork::kUnlimited);
    for (const ValueId result : op.outputs) {
      const int node = network_.add_node();
      nodes_.emplace(result, node);
      network_.add_edge(node, network_.add_node(), prices_.kept(result));
      network_.add_edge(done, node, FlowNetwork::kUnlimited);
    }
  }

  const Graph& graph_;
  const TrainingPasses& passes_;
  const KeepingPrices& prices_;
  FlowNetwork network_;
  std::unordered_map<ValueId, int> nodes_;  // where the value comes in; the next one is where it goes on
};

}  // namespace

KeptValues cheapest_kept(const Graph& graph, const TrainingPasses& passes, const KeepingPrices& prices) {
  return KeepingNetwork(graph, passes, prices).run();
}

bool is_costly(const Op& op) {
  switch (category(op)) {
    case Category::Contraction:
    case Category::Region:
    case Category::Collective:
      return true;
    case Category::Composite:
      return !op_def(op).gradient;
    default:
      return false;
  }
}

KeptValues fewest_bytes_kept(const Graph& graph, const TrainingPasses& passes) {
  return cheapest_kept(graph, passes,
                       {[&](OpId id) { return is_costly(graph.op(id)) ? FlowNetwork::kUnlimited : 0; },
                        [&](ValueId v) { return bytes_of(graph, v); }});
}

}  // namespace weftc

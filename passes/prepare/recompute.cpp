// Lets the backward pass of a training compute values of the forward pass again instead of keeping them (`recompute:`):
//
//   h = Gelu(a)                         h = Gelu(a)
//   y = MatMul(h, w)                    y = MatMul(h, w)
//   ...                          ->     ...                                 here only a lies in memory, not h
//   dw = MatMul(h', dy)                 h.again = Gelu(a)
//                                       dw = MatMul(h.again', dy)
//
// The forward pass is what the loss depends on, the backward pass what the derivatives depend on besides. A copy stands
// right in front of its first reader. The backward pass and what is made of the derivatives become late: neither merged
// nor fused with the forward pass, which would keep in memory what is to be computed again. Random draws are drawn
// again by the same key.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "ir/op_def.h"
#include "passes/graph_order.h"
#include "passes/passes.h"
#include "passes/prepare/smallest_cut.h"
#include "passes/select.h"

namespace weftc {

namespace {

/// Inputs, parameters among them, and constants are in memory anyway.
bool is_given(const Op& op) { return op.kind == OpKind::Input || op.kind == OpKind::Constant; }

/// Which ops compute the loss, and which its derivatives and what is made of these.
struct Passes {
  explicit Passes(const Module& module);
  bool is_forward(OpId id) const { return forward[id.index]; }
  /// True for a result of the forward pass that is in memory only if it is kept.
  bool is_made_forward(const Graph& graph, ValueId v) const {
    return v && is_forward(graph.producer(v)) && !is_given(graph.producer_op(v));
  }

  std::vector<bool> forward;  // by op
  std::vector<OpId> late;     // the others, in graph order
};

Passes::Passes(const Module& module) {
  const Graph& graph = module.graph;
  std::vector<ValueId> derivatives;
  for (const auto& [derivative, primal] : module.primals) derivatives.push_back(graph.find_value(derivative));
  const std::vector<bool> before_derivatives = ancestors_of(graph, derivatives);
  forward = ancestors_of(graph, {graph.find_value(module.training->loss)});
  std::vector<bool> is_late(graph.op_capacity(), false);
  for (const OpId id : graph.order()) {
    const auto reads_late = [&](ValueId v) { return v && is_late[graph.producer(v).index]; };
    is_late[id.index] =
        (before_derivatives[id.index] && !is_forward(id)) || std::ranges::any_of(graph.op(id).inputs, reads_late);
    if (is_late[id.index]) late.push_back(id);
  }
}

int64_t bytes_of(const Graph& graph, ValueId value) {
  return graph.type(value).count() * dtype_bytes(graph.type(value).dtype);
}

/// The results of the forward pass that the backward pass reads: where it reads one through views, that one.
std::set<ValueId> values_across(const Graph& graph, const Passes& passes) {
  std::set<ValueId> found;
  for (const OpId id : passes.late)
    for (ValueId v : graph.op(id).inputs) {
      const auto is_view = [&] {
        return category(graph.producer_op(v)) == Category::View && graph.producer_op(v).inputs.size() == 1;
      };
      while (passes.is_made_forward(graph, v) && is_view()) v = graph.producer_op(v).inputs[0];
      if (passes.is_made_forward(graph, v)) found.insert(v);
    }
  return found;
}

int64_t bytes_of(const Graph& graph, const std::set<ValueId>& values) {
  int64_t sum = 0;
  for (const ValueId v : values) sum += bytes_of(graph, v);
  return sum;
}

/// True for what takes too long to be done twice unless the schedule asks for it. Of composite ops, norms and the like
/// have a rule for their derivative; it is not known what others are made of.
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

/// The values of the fewest bytes from which all that the backward pass reads is computed again without anything
/// costly. Each value is two nodes, with an edge of its bytes between: a cut through it keeps it.
class SmallestKept {
 public:
  SmallestKept(const Graph& graph, const Passes& passes) : graph_(graph), passes_(passes) {}

  std::unordered_set<ValueId> run() {
    for (OpId id = graph_.first(); id; id = graph_.next(id))
      if (passes_.is_forward(id) && !is_given(graph_.op(id))) add(graph_.op(id));
    for (const OpId id : passes_.late)
      for (const ValueId v : graph_.op(id).inputs)
        if (passes_.is_made_forward(graph_, v))
          network_.add_edge(nodes_.at(v) + 1, FlowNetwork::kSink, FlowNetwork::kUnlimited);
    const std::vector<bool> is_behind = network_.behind_smallest_cut();
    std::unordered_set<ValueId> kept;
    for (const auto& [value, node] : nodes_)
      if (!is_behind[node] && is_behind[node + 1]) kept.insert(value);
    return kept;
  }

 private:
  void add(const Op& op) {
    for (const ValueId result : op.outputs) {
      const int node = network_.add_node();
      nodes_.emplace(result, node);
      network_.add_edge(node, network_.add_node(), bytes_of(graph_, result));
      if (is_costly(op)) network_.add_edge(FlowNetwork::kSource, node, FlowNetwork::kUnlimited);
      for (const ValueId v : op.inputs)
        if (passes_.is_made_forward(graph_, v)) network_.add_edge(nodes_.at(v) + 1, node, FlowNetwork::kUnlimited);
    }
  }

  const Graph& graph_;
  const Passes& passes_;
  FlowNetwork network_;
  std::unordered_map<ValueId, int> nodes_;  // where the value comes in; the next one is where it goes on
};

/// The values that the schedule names.
std::unordered_set<ValueId> named_values(const Module& module, const Passes& passes, const Env& env) {
  const Graph& graph = module.graph;
  const SelectableNames names(module, graph, env.schedule.aliases);
  std::unordered_set<ValueId> kept;
  for (const Selector& selector : env.schedule.train->recompute->keep) {
    bool is_any = false, is_any_forward = false;
    for (const Bindings& bindings : names.bindings({selector}))
      for (const ValueId v : names.select_values(selector, bindings)) {
        is_any = true;
        if (!passes.is_forward(graph.producer(v))) continue;
        is_any_forward = true;
        kept.insert(v);
      }
    if (!is_any)
      names.report_unmatched(selector, env.diags);
    else if (!is_any_forward)
      env.diags.error("recompute-keep", selector.loc, "'{}' names no value that the loss is computed from",
                      printable(shown_selector(selector)));
  }
  return kept;
}

/// Late ops are known by the phases of their origins. An op of the forward pass may have taken in an equal one of the
/// backward pass: it is not known by that one's origins any more.
void set_apart(Module& module, const Passes& passes) {
  Graph& graph = module.graph;
  module.training->recomputes = true;
  for (OpId id = graph.first(); id; id = graph.next(id))
    if (passes.is_forward(id))
      std::erase_if(graph.edit(id).origins,
                    [&](OriginId origin) { return module.origins[origin.index].phase != Phase::Forward; });
}

/// Writes the ops that compute again what is not kept.
class AgainWriter {
 public:
  AgainWriter(Module& module, const Passes& passes, const std::unordered_set<ValueId>& kept)
      : module_(module), graph_(module.graph), passes_(passes), kept_(kept) {}

  void run() {
    for (const OpId id : passes_.late)
      for (size_t i = 0; i < graph_.op(id).inputs.size(); ++i)
        if (const ValueId v = graph_.op(id).inputs[i]; !is_there(v)) graph_.set_input(id, i, again(v, id));
  }

 private:
  bool is_there(ValueId v) const { return !passes_.is_made_forward(graph_, v) || kept_.contains(v); }

  ValueId again(ValueId value, OpId reader) {
    if (!again_.contains(value))
      for (const OpId id : in_graph_order(graph_, missing(value))) copy(id, reader);
    return again_.at(value);
  }

  /// The ops by which the value is computed from what is there, or has been computed again already.
  std::set<OpId> missing(ValueId value) const {
    std::set<OpId> found;
    std::vector<ValueId> open{value};
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (is_there(v) || again_.contains(v) || !found.insert(graph_.producer(v)).second) continue;
      const Op& op = graph_.producer_op(v);
      open.insert(open.end(), op.inputs.begin(), op.inputs.end());
    }
    return found;
  }

  void copy(OpId id, OpId reader) {
    const Op& op = graph_.op(id);
    NewOp made = copy_of(op);
    made.name += kAgain;
    made.origins = origins_of(op);
    made.regions = op.regions;
    for (Graph& region : made.regions) rename_in(region);
    for (const ValueId v : op.inputs) made.inputs.push_back(is_there(v) ? v : again_.at(v));
    for (const ValueId v : op.outputs) {
      made.results.push_back(graph_.type(v));
      made.result_names.push_back(graph_.value(v).name + std::string(kAgain));
    }
    const std::vector<ValueId> results = op.outputs;
    const OpId copied = graph_.add(std::move(made), reader);
    for (size_t r = 0; r < results.size(); ++r) again_.emplace(results[r], graph_.op(copied).outputs[r]);
  }

  void rename_in(Graph& region) {
    for (const OpId id : region.order()) {
      for (Graph& inner : region.edit(id).regions) rename_in(inner);
      region.edit(id).origins = origins_of(region.op(id));
      if (region.op(id).kind != OpKind::Input) region.rename_op(id, region.op(id).name + std::string(kAgain));
    }
  }

  /// Origins of its own, so that a name in a schedule means what it means in the model.
  std::vector<OriginId> origins_of(const Op& op) {
    std::vector<OriginId> origins;
    for (const OriginId first : op.origins) {
      const auto [at, is_new] =
          origins_.try_emplace(first.index, OriginId{static_cast<uint32_t>(module_.origins.size())});
      origins.push_back(at->second);
      if (!is_new) continue;
      Origin origin = module_.origins[first.index];
      origin.name += kAgain;
      origin.phase = Phase::Backward;
      module_.origins.push_back(std::move(origin));
    }
    std::ranges::sort(origins);
    return origins;
  }

  Module& module_;
  Graph& graph_;
  const Passes& passes_;
  const std::unordered_set<ValueId>& kept_;
  std::unordered_map<ValueId, ValueId> again_;
  std::unordered_map<uint32_t, OriginId> origins_;
};

}  // namespace

void recompute(Module& module, const Env& env) {
  if (!env.schedule.train || !env.schedule.train->recompute) return;
  const RecomputeRequest& request = *env.schedule.train->recompute;
  const Passes passes(module);
  const std::unordered_set<ValueId> kept =
      request.keep.empty() ? SmallestKept(module.graph, passes).run() : named_values(module, passes, env);
  if (!env.diags.ok()) return;
  const int64_t bytes_before = bytes_of(module.graph, values_across(module.graph, passes));
  const size_t ops_before = module.graph.op_count();
  set_apart(module, passes);
  AgainWriter(module, passes, kept).run();
  const size_t again = module.graph.op_count() - ops_before;
  if (again == 0)
    env.diags.warning("recompute-nothing", request.loc,
                      "nothing is computed again: the backward pass reads only what is kept");
  const std::set<ValueId> across = values_across(module.graph, Passes(module));
  module.remarks.push_back(format(
      "recompute: {} ops are computed again; of the forward pass {} values of {} bytes are kept for the backward "
      "pass, in place of {} bytes",
      again, across.size(), bytes_of(module.graph, across), bytes_before));
}

}  // namespace weftc

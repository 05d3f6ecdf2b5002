// The forward pass is all that the loss depends on. Late ops are those that only the derivatives depend on, and all
// their readers.
#include "passes/prepare/training_passes.h"

#include <algorithm>

#include "ir/op_def.h"
#include "passes/graph_order.h"

namespace weftc {

bool is_given(const Op& op) { return op.kind == OpKind::Input || op.kind == OpKind::Constant; }

bool is_shown(const Graph& graph, ValueId v) {
  const Op& op = graph.producer_op(v);
  return category(op) == Category::View && op.inputs.size() == 1;
}

TrainingPasses::TrainingPasses(const Module& module) {
  const Graph& graph = module.graph;
  std::vector<ValueId> derivatives;
  for (const auto& [derivative, primal] : module.primals) derivatives.push_back(graph.find_value(derivative));
  const std::vector<bool> before_derivatives = ancestors_of(graph, derivatives);
  forward_ = ancestors_of(graph, {graph.find_value(module.training->loss)});
  is_late_.resize(graph.op_capacity(), false);
  for (const OpId id : graph.order()) {
    const auto reads_late = [&](ValueId v) { return v && is_late_[graph.producer(v).index]; };
    is_late_[id.index] =
        (before_derivatives[id.index] && !is_forward(id)) || std::ranges::any_of(graph.op(id).inputs, reads_late);
    if (is_late_[id.index]) late_.push_back(id);
  }
}

bool TrainingPasses::is_made_forward(const Graph& graph, ValueId v) const {
  return v && is_forward(graph.producer(v)) && !is_given(graph.producer_op(v));
}

int64_t bytes_of(const Graph& graph, ValueId value) {
  return graph.type(value).count() * dtype_bytes(graph.type(value).dtype);
}

int64_t bytes_of(const Graph& graph, const std::set<ValueId>& values) {
  int64_t sum = 0;
  for (const ValueId v : values) sum += bytes_of(graph, v);
  return sum;
}

std::set<ValueId> values_across(const Graph& graph, const TrainingPasses& passes) {
  std::set<ValueId> found;
  for (const OpId id : passes.late())
    for (ValueId v : graph.op(id).inputs) {
      while (passes.is_made_forward(graph, v) && is_shown(graph, v)) v = graph.producer_op(v).inputs[0];
      if (passes.is_made_forward(graph, v)) found.insert(v);
    }
  return found;
}

std::vector<Again> computed_again(const Graph& graph, const TrainingPasses& passes, const KeptValues& kept) {
  std::vector<Again> found;
  std::vector<bool> is_again(graph.op_capacity(), false);
  // The ops that compute the value from kept or already recomputed values.
  const auto missing = [&](ValueId value) {
    std::set<OpId> ops;
    std::vector<ValueId> open{value};
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (!v || is_there(graph, passes, kept, v)) continue;
      const OpId id = graph.producer(v);
      if (is_again[id.index] || !ops.insert(id).second) continue;
      open.insert(open.end(), graph.op(id).inputs.begin(), graph.op(id).inputs.end());
    }
    return ops;
  };
  for (const OpId reader : passes.late())
    for (const ValueId v : graph.op(reader).inputs)
      for (const OpId id : in_graph_order(graph, missing(v))) {
        is_again[id.index] = true;
        found.push_back({id, reader});
      }
  return found;
}

}  // namespace weftc

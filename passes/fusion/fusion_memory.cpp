// Walks backwards from each reader that is no kernel through views to the value that must lie in memory.
#include "passes/fusion/fusion_memory.h"

#include <unordered_set>

#include "ir/exchange_types.h"
#include "ir/op_def.h"
#include "ir/value_memory.h"
#include "passes/fusion/kernel_values.h"

namespace weftc {

namespace {

/// How something that is no kernel reads a value.
struct MemoryReader {
  bool takes_constants = false;  // it can read a constant where constants lie, among the weights
  bool needs_own = false;        // it is the result of a region, which needs a buffer of its own
  bool sends_on = false;         // it is a Transfer or a result: it needs memory that its stage wrote, while the result
                                 // of a Transfer is memory that another stage writes
};

class MemoryDecider {
 public:
  MemoryDecider(const Module& module, const Graph& graph, const std::vector<OpId>& order, bool region)
      : graph_(graph), order_(order), region_(region) {
    find_bounded_memory(module);
    out_.stored.assign(graph.op_capacity(), false);
    out_.alias.assign(graph.op_capacity(), false);
    out_.node_of.assign(graph.op_capacity(), -1);
  }

  FusionMemory run() {
    store_operands();
    for (const Graph::Output& output : graph_.outputs()) store(output.value, {false, region_, true});
    number_nodes();
    return std::move(out_);
  }

 private:
  void find_bounded_memory(const Module& module) {
    const auto add = [&](ValueId v) { by_bounds_.insert(memory_of(graph_, v)); };
    for (OpId id : order_) {
      const Op& op = graph_.op(id);
      if (category(op) != Category::Collective) continue;
      const TensorType &from = graph_.type(op.inputs[0]), &to = graph_.type(op.outputs[0]);
      if (op.kind == OpKind::Transfer || strides_over_lengths(op.kind, from, to, axes_of(op)))
        add(op.inputs[0]), add(op.outputs[0]);
    }
    if (&graph_ != &module.graph) return;
    for (const State& state : module.states) {
      add(graph_.find_value(state.input));
      for (const Graph::Output& output : graph_.outputs())
        if (output.name == state.output) add(output.value);
    }
  }

  /// Collectives and regions are no kernels. Scans, scatters and all gathers except Gather become kernels of their own.
  /// Their loops index operands in memory instead of evaluating them element by element, so these are stored as well.
  void store_operands() {
    for (OpId id : order_) {
      const Op& op = graph_.op(id);
      const Category c = category(op);
      const bool loads_only = c == Category::Scan || (c == Category::Index && op.kind != OpKind::Gather);
      if (c != Category::Collective && c != Category::Region && !loads_only) continue;
      for (size_t i = 0; i < op.inputs.size(); ++i)
        store(op.inputs[i], {reads_weights(op, i), false, op.kind == OpKind::Transfer});
    }
  }

  void number_nodes() {
    for (OpId id : order_) {
      const Op& op = graph_.op(id);
      const bool source = op.kind == OpKind::Input || op.kind == OpKind::Constant;
      const bool recomputed = is_load_view(op) || is_pattern(op);
      if (!source && (!recomputed || out_.stored[id.index])) out_.node_of[id.index] = out_.nodes++;
    }
  }

  /// Stores `value`. Where it is a Reshape that can be an alias, its operand must lie in memory instead, so the walk
  /// goes on there. Any other view ends the walk: a kernel copies it.
  void store(ValueId value, MemoryReader reader) {
    while (value) {
      const OpId id = graph_.producer(value);
      const Op& op = graph_.op(id);
      if (!is_load_view(op) && !is_pattern(op)) return;  // a kernel or a source has memory anyway
      const bool known = out_.stored[id.index];
      out_.stored[id.index] = true;
      if (op.kind != OpKind::Reshape) return;
      if (known && !out_.alias[id.index]) return;  // an earlier reader needs a copy, and this one can read the copy
      out_.alias[id.index] = !is_copy(graph_, op) && !moves_lengths(op) && can_alias(op.inputs[0], reader);
      if (!out_.alias[id.index]) return;
      value = op.inputs[0];
    }
  }

  /// True if the reader may get the memory of `operand` itself. It may not where that memory belongs to someone else:
  /// the caller of a region, another reader of a region's result, the sending stage of a Transfer.
  bool can_alias(ValueId operand, MemoryReader reader) const {
    const OpKind base = graph_.producer_op(operand).kind;
    const bool shared = reader.needs_own && graph_.value(operand).uses.size() > 1;
    const bool lent = (region_ && (base == OpKind::Input || shared)) || (reader.sends_on && base == OpKind::Transfer);
    return reader.takes_constants || (base != OpKind::Constant && !lent);
  }

  /// True for a Reshape of memory that lies by bounds to a shape that lies otherwise.
  bool moves_lengths(const Op& reshape) const {
    return by_bounds_.contains(memory_of(graph_, reshape.inputs[0])) &&
           !is_same_by_bounds(graph_.type(reshape.inputs[0]).shape, graph_.type(reshape.outputs[0]).shape);
  }

  const Graph& graph_;
  const std::vector<OpId>& order_;
  const bool region_;
  std::unordered_set<ValueId> by_bounds_;
  FusionMemory out_;
};

}  // namespace

FusionMemory decide_memory(const Module& module, const Graph& graph, const std::vector<OpId>& order, bool region) {
  return MemoryDecider(module, graph, order, region).run();
}

}  // namespace weftc

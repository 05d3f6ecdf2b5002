// Puts every op that computes into a Fused op that becomes one kernel:
//   m = MatMul(a, w); b = Add(m, bias); y = Gelu(b)     ->    y = Fused(a, w, bias) { the three ops }
// Views and literals are repeated in each kernel that reads them. A view that an op outside of kernels reads becomes a
// kernel that copies, except for a Reshape, which is the same memory. The copies that lay-in-memory made become kernels
// too. Chunk, If and Loop are entered; a Fused op that a transform made stays as it is. Nothing is computed twice, and
// no kernel is split.
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "ir/base/check.h"
#include "ir/base/contains.h"
#include "ir/local_op.h"
#include "ir/named_lengths.h"
#include "passes/fusion/fusion_groups.h"
#include "passes/passes.h"

namespace weftc {

namespace {

void join_origins(std::vector<OriginId>& to, const std::vector<OriginId>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// Writes the graph again, in a new order, with its groups as Fused ops.
class KernelOutliner {
 public:
  KernelOutliner(const Module& module, Graph& graph, const Fusion& fusion)
      : module_(module), graph_(graph), fusion_(fusion), order_(graph.order()), lengths_(graph) {}

  Graph run() {
    made_.time_axes = graph_.time_axes;
    for (int unit : ordered_units()) {
      const OpId first = unit_ops_[unit].front();
      if (fusion_.group_of[first.index] >= 0)
        add_kernel(fusion_.groups[fusion_.group_of[first.index]]);
      else
        add_copy(first);
    }
    for (const Graph::Output& output : graph_.outputs()) made_.add_output(in_memory(output.value), output.name);
    return std::move(made_);
  }

 private:
  const Op& op(OpId id) const { return graph_.op(id); }
  bool in_group(OpId id) const { return fusion_.group_of[id.index] >= 0; }
  bool comes_along(OpId id) const { return is_carried_along(graph_, fusion_, id); }

  /// Calls `f` with each value that `value` needs in memory: itself, or the operands of views that are repeated in the
  /// kernel.
  template <class F>
  void for_each_load(ValueId value, F&& f) const {
    const OpId producer = graph_.producer(value);
    if (!comes_along(producer)) return f(value);
    for (ValueId v : op(producer).inputs) for_each_load(v, f);
  }

  /// A unit is an op of the new graph: a kernel, or an op outside of kernels.
  void number_units() {
    unit_of_.assign(graph_.op_capacity(), -1);
    for (const FusionGroup& g : fusion_.groups) {
      for (OpId id : g.members) unit_of_[id.index] = static_cast<int>(unit_ops_.size());
      unit_ops_.push_back(g.members);
    }
    for (OpId id : order_) {
      if (in_group(id) || comes_along(id)) continue;
      unit_of_[id.index] = static_cast<int>(unit_ops_.size());
      unit_ops_.push_back({id});
    }
  }

  /// The main op of a unit: its kernel's root.
  OpId main_op(int unit) const {
    const OpId first = unit_ops_[unit].front();
    return in_group(first) ? fusion_.groups[fusion_.group_of[first.index]].root : first;
  }

  /// By value of the graph that becomes a state: the state's value before.
  std::unordered_map<ValueId, ValueId> states_before() const {
    std::unordered_map<ValueId, ValueId> before;
    if (&graph_ != &module_.graph) return before;
    for (const State& state : module_.states)
      for (const Graph::Output& output : graph_.outputs())
        if (output.name == state.output) before.emplace(output.value, graph_.find_value(state.input));
    return before;
  }

  /// By unit: the units that it reads.
  std::vector<std::vector<int>> operand_units() const {
    std::vector<std::vector<int>> operands(unit_ops_.size());
    for (int unit = 0; unit < static_cast<int>(unit_ops_.size()); ++unit)
      for (OpId id : unit_ops_[unit]) {
        const auto depend = [&](ValueId v) {
          if (const int on = unit_of_[graph_.producer(v).index]; on != unit) operands[unit].push_back(on);
        };
        for (ValueId v : op(id).inputs)
          if (v) for_each_load(v, depend);
        lengths_.for_each(op(id), depend);
      }
    return operands;
  }

  /// By unit: its turn, which is the position of its main op in the graph's order. A unit that makes the next value of
  /// a state comes after other readers of the old value, so that both may lie in one place. The results of a body may
  /// be such values too.
  std::vector<int> turns_of_units(const std::vector<std::vector<int>>& operands) const {
    std::vector<int> position(graph_.op_capacity(), 0), turns;
    for (size_t i = 0; i < order_.size(); ++i) position[order_[i].index] = static_cast<int>(i);
    const std::unordered_map<ValueId, ValueId> before = states_before();
    const bool is_body = &graph_ != &module_.graph;
    for (int unit = 0; unit < static_cast<int>(unit_ops_.size()); ++unit) {
      const std::vector<OpId>& ops = unit_ops_[unit];
      int turn = position[(is_body ? ops.back() : main_op(unit)).index];
      const auto wait_for = [&](const Use& use) {
        const int reader = use.op ? unit_of_[use.op.index] : unit;
        if (reader != unit && !contains(operands[unit], reader)) turn = std::max(turn, position[use.op.index]);
      };
      for (OpId id : ops)
        for (ValueId v : op(id).outputs)
          if (const auto state = before.find(v); state != before.end())
            std::ranges::for_each(graph_.value(state->second).uses, wait_for);
      turns.push_back(turn);
    }
    return turns;
  }

  /// Units in the order of their turns, but each before the first one that reads it. A kernel may take in a much later
  /// op, such as a parameter's update. It does not wait for that op, because its operands would stay in memory until
  /// then.
  std::vector<int> ordered_units() {
    number_units();
    std::vector<std::vector<int>> operands = operand_units();
    const std::vector<int> turns = turns_of_units(operands);
    const auto is_earlier = [&](int a, int b) { return std::pair(turns[a], a) < std::pair(turns[b], b); };
    for (std::vector<int>& each : operands) std::sort(each.begin(), each.end(), is_earlier);
    std::vector<int> open(unit_ops_.size()), order;
    std::iota(open.begin(), open.end(), 0);
    std::sort(open.begin(), open.end(), [&](int a, int b) { return is_earlier(b, a); });
    enum class Visit : uint8_t { None, Begun, Done };
    std::vector<Visit> visits(unit_ops_.size(), Visit::None);
    while (!open.empty()) {
      const int unit = open.back();
      if (visits[unit] == Visit::None) {
        visits[unit] = Visit::Begun;
        for (auto on = operands[unit].rbegin(); on != operands[unit].rend(); ++on) {
          WEFT_CHECK(visits[*on] != Visit::Begun, "the kernels form a cycle");
          if (visits[*on] == Visit::None) open.push_back(*on);
        }
        continue;
      }
      open.pop_back();
      if (visits[unit] == Visit::Begun) order.push_back(unit);
      visits[unit] = Visit::Done;
    }
    return order;
  }

  /// The new value of an old one. A literal that something other than a kernel reads is made where it is needed
  /// first.
  ValueId in_memory(ValueId old) {
    if (!now_.contains(old) && is_literal(graph_, graph_.producer_op(old))) add_copy(graph_.producer(old));
    return now_.at(old);
  }

  /// An op that stays outside of kernels.
  void add_copy(OpId id) {
    Op& old = graph_.edit(id);
    NewOp made = copy_of(old);
    made.regions = std::move(old.regions);
    for (ValueId v : old.inputs) made.inputs.push_back(v ? in_memory(v) : ValueId{});
    for (ValueId v : old.outputs) {
      made.results.push_back(graph_.type(v));
      made.result_names.push_back(graph_.value(v).name);
    }
    record(id, made_.add(std::move(made)));
  }

  /// Maps the old results to the new ones.
  void record(OpId id, OpId fresh) {
    for (size_t r = 0; r < op(id).outputs.size(); ++r) now_[op(id).outputs[r]] = made_.op(fresh).outputs[r];
  }

  /// A body under construction: its graph, and the body's value for each old value.
  struct Body {
    Graph graph;
    std::unordered_map<ValueId, ValueId> values;
    std::vector<ValueId> operands;  // old values, in the order of the parameters
  };

  bool is_member(OpId id, const FusionGroup& group) const {
    return &fusion_.groups[fusion_.group_of[id.index]] == &group;
  }

  /// A parameter of the body for a value in memory.
  void add_operand(Body& body, ValueId value) {
    if (body.values.contains(value)) return;
    const Value& old = graph_.value(value);
    const OpId id = body.graph.add({OpKind::Input,
                                    {},
                                    {old.type},
                                    {},
                                    {},
                                    place_of(made_, now_.at(value)),  // regions have moved there
                                    old.name,
                                    op(old.producer).origins,
                                    {},
                                    {old.name}});
    body.values[value] = body.graph.result(id);
    body.operands.push_back(value);
  }

  /// Makes the body's value for an operand of a member: parameters exist already, views and literals are repeated.
  void bring(Body& body, ValueId value) {
    const OpId id = graph_.producer(value);
    if (body.values.contains(value)) return;
    for (ValueId v : op(id).inputs) bring(body, v);
    repeat(body, id);
  }

  void repeat(Body& body, OpId id) {
    const Op& old = op(id);
    NewOp made = copy_of(old);
    for (ValueId v : old.inputs) made.inputs.push_back(v ? body.values.at(v) : ValueId{});
    for (ValueId v : old.outputs) {
      made.results.push_back(graph_.type(v));
      made.result_names.push_back(graph_.value(v).name);
    }
    const OpId fresh = body.graph.add(std::move(made));
    for (size_t r = 0; r < old.outputs.size(); ++r) body.values[old.outputs[r]] = body.graph.op(fresh).outputs[r];
  }

  /// True if something outside of the group reads the value.
  bool is_result(ValueId value, const FusionGroup& group) const {
    const auto& uses = graph_.value(value).uses;
    if (lengths_.holds_length(value)) return true;  // kernels are told lengths from memory
    return std::any_of(uses.begin(), uses.end(),
                       [&](const Use& use) { return !use.op || !in_group(use.op) || !is_member(use.op, group); });
  }

  /// Copies the members into the body: all parameters first, then the ops.
  void fill(Body& body, const FusionGroup& group) {
    body.graph.time_axes = graph_.time_axes;
    for (OpId id : group.members) {
      const auto add = [&](ValueId v) {
        const OpId producer = graph_.producer(v);
        if (in_group(producer) && is_member(producer, group)) return;
        if (!comes_along(producer)) add_operand(body, v);
      };
      for (ValueId v : op(id).inputs)
        if (v) for_each_load(v, add);
    }
    for (OpId id : group.members) {
      for (ValueId v : op(id).inputs)
        if (v) bring(body, v);
      repeat(body, id);
    }
  }

  std::string name_of(const FusionGroup& group) const {
    const Op& root = op(group.root);
    return root.origins.empty() ? root.name : module_.origins[root.origins.front().index].name;
  }

  /// The Fused op of a group, with an operand for each parameter and a result for each value that others read.
  void add_kernel(const FusionGroup& group) {
    Body body;
    fill(body, group);
    const Op& root = op(group.root);
    NewOp made{OpKind::Fused, {}, {}, {}, {}, root.place, name_of(group), {}, root.transform, {}};
    for (ValueId v : body.operands) {
      WEFT_CHECK(now_.contains(v),
                 "kernel '" + made.name + "' stands before its operand '" + graph_.value(v).name + "'");
      made.inputs.push_back(now_.at(v));
    }
    made.block = root.block;
    std::vector<ValueId> results;
    for (OpId id : group.members) {
      join_origins(made.origins, op(id).origins);
      for (ValueId v : op(id).outputs) {
        if (!is_result(v, group)) continue;
        body.graph.add_output(body.values.at(v), graph_.value(v).name);
        results.push_back(v);
        made.results.push_back(graph_.type(v));
        made.result_names.push_back(graph_.value(v).name);
      }
    }
    made.regions.push_back(std::move(body.graph));
    const OpId fresh = made_.add(std::move(made));
    for (size_t r = 0; r < results.size(); ++r) now_[results[r]] = made_.op(fresh).outputs[r];
  }

  const Module& module_;
  Graph& graph_;
  const Fusion& fusion_;
  const std::vector<OpId> order_;
  const LengthHolders lengths_;
  Graph made_;
  std::vector<std::vector<OpId>> unit_ops_;
  std::vector<int> unit_of_;
  std::unordered_map<ValueId, ValueId> now_;  // old values to new ones
};

void fuse(Module& module, Graph& graph, const Op* owner, const Target& target) {
  for (OpId id : graph.order()) {
    Op& op = graph.edit(id);
    if (op.kind == OpKind::Fused) continue;
    for (Graph& inner : op.regions) fuse(module, inner, &op, target);
  }
  const Fusion fusion = decide_fusion(module, graph, target, owner != nullptr);
  module.remarks.insert(module.remarks.end(), fusion.near_misses.begin(), fusion.near_misses.end());
  Graph fused = KernelOutliner(module, graph, fusion).run();
  graph = std::move(fused);
}

}  // namespace

void fuse_regions(Module& module, const Env& env) { fuse(module, module.graph, nullptr, env.target); }

}  // namespace weftc

// Puts every op that computes into a Fused op that becomes one kernel:
//   m = MatMul(a, w); b = Add(m, bias); y = Gelu(b)     ->    y = Fused(a, w, bias) { the three ops }
// Views and literals are repeated in each kernel that reads them. A view that something else than a kernel reads
// becomes a kernel that copies, but for a Reshape, which is the same memory. Chunk, If and Loop are entered; a Fused op
// that a transform made stays as it is. Nothing is computed twice, and no kernel is split.
#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "ir/base/check.h"
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
      : module_(module), graph_(graph), fusion_(fusion), order_(graph.order()) {
    for (OpId id : order_)
      for (ValueId v : op(id).outputs)
        for (const Extent& e : graph_.type(v).shape)
          if (e.count) lengths_.insert(e.count);
  }

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

  /// Calls `f` with each value that `value` needs in memory: itself, or what the views that come along load.
  template <class F>
  void for_each_load(ValueId value, F&& f) const {
    const OpId producer = graph_.producer(value);
    for (const Extent& e : graph_.type(value).shape)
      if (e.count && e.count != value) f(e.count);
    if (!comes_along(producer)) return f(value);
    for (ValueId v : op(producer).inputs) for_each_load(v, f);
  }

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

  /// Units (kernels and single ops) in an order in which all operands come first, else in that of their last ops.
  std::vector<int> ordered_units() {
    number_units();
    std::vector<int> position(graph_.op_capacity(), 0);
    for (size_t i = 0; i < order_.size(); ++i) position[order_[i].index] = static_cast<int>(i);
    std::vector<std::vector<int>> readers(unit_ops_.size());
    std::vector<int> waiting(unit_ops_.size(), 0);
    for (int unit = 0; unit < static_cast<int>(unit_ops_.size()); ++unit)
      for (OpId id : unit_ops_[unit]) {
        const auto depend = [&](ValueId v) {
          const int on = unit_of_[graph_.producer(v).index];
          if (on == unit) return;
          readers[on].push_back(unit);
          ++waiting[unit];
        };
        for (ValueId v : op(id).inputs)
          if (v) for_each_load(v, depend);
        for (ValueId v : op(id).outputs)
          for (const Extent& e : graph_.type(v).shape)  // an input's count comes behind it
            if (e.count && graph_.producer(e.count) != id && op(id).kind != OpKind::Input) depend(e.count);
      }
    using Entry = std::pair<int, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    const auto push = [&](int unit) { ready.push({position[unit_ops_[unit].back().index], unit}); };
    for (int unit = 0; unit < static_cast<int>(unit_ops_.size()); ++unit)
      if (!waiting[unit]) push(unit);
    std::vector<int> order;
    while (!ready.empty()) {
      const int unit = ready.top().second;
      ready.pop();
      order.push_back(unit);
      for (int reader : readers[unit])
        if (!--waiting[reader]) push(reader);
    }
    WEFT_CHECK(order.size() == unit_ops_.size(), "the kernels form a cycle");
    return order;
  }

  TensorType renamed(TensorType type, const std::unordered_map<ValueId, ValueId>& values, ValueId self = {},
                     ValueId new_self = {}) const {
    for (Extent& e : type.shape)
      if (e.count && e.count == self)
        e.count = new_self;
      else if (e.count) {
        WEFT_CHECK(values.contains(e.count), "the run-time length '" + graph_.value(e.count).name + "' is not at hand");
        e.count = values.at(e.count);
      }
    return type;
  }

  /// The new value; a literal that something else than a kernel reads is made where it is needed first.
  ValueId in_memory(ValueId old) {
    if (!now_.contains(old) && is_literal(graph_, graph_.producer_op(old))) add_copy(graph_.producer(old));
    return now_.at(old);
  }

  void add_copy(OpId id) {
    Op& old = graph_.edit(id);
    NewOp made{old.kind,  {},       {},          old.attrs,     std::move(old.regions),
               old.place, old.name, old.origins, old.transform, {}};
    for (ValueId v : old.inputs) made.inputs.push_back(v ? in_memory(v) : ValueId{});
    for (ValueId v : old.outputs) {
      TensorType type = graph_.type(v);
      for (Extent& e : type.shape)  // an input's count is made behind it
        if (e.count && now_.contains(e.count))
          e.count = now_.at(e.count);
        else if (e.count)
          late_counts_[e.count].push_back(v);
      made.results.push_back(type);
      made.result_names.push_back(graph_.value(v).name);
    }
    record(id, made_.add(std::move(made)));
  }

  void record(OpId id, OpId fresh) {
    for (size_t r = 0; r < op(id).outputs.size(); ++r) record(op(id).outputs[r], made_.op(fresh).outputs[r]);
  }

  void record(ValueId old, ValueId fresh) {
    now_[old] = fresh;
    const auto late = late_counts_.find(old);
    if (late == late_counts_.end()) return;
    for (ValueId v : late->second) {
      TensorType type = made_.type(now_.at(v));
      for (Extent& e : type.shape)
        if (e.count == old) e.count = fresh;
      made_.retype(now_.at(v), type);
    }
    late_counts_.erase(late);
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

  void add_operand(Body& body, ValueId value) {
    if (body.values.contains(value)) return;
    for (const Extent& e : graph_.type(value).shape)
      if (e.count && e.count != value) add_operand(body, e.count);
    const Value& old = graph_.value(value);
    const OpId id = body.graph.add({OpKind::Input,
                                    {},
                                    {renamed(old.type, body.values)},
                                    {},
                                    {},
                                    op(old.producer).place,
                                    old.name,
                                    op(old.producer).origins,
                                    {},
                                    {old.name}});
    body.values[value] = body.graph.result(id);
    body.operands.push_back(value);
  }

  /// The body's value for an operand of a member: parameters are there, what comes along is repeated.
  void bring(Body& body, ValueId value) {
    const OpId id = graph_.producer(value);
    if (body.values.contains(value)) return;
    for (ValueId v : op(id).inputs) bring(body, v);
    repeat(body, id);
  }

  void repeat(Body& body, OpId id) {
    const Op& old = op(id);
    NewOp made{old.kind, {}, {}, old.attrs, {}, old.place, old.name, old.origins, old.transform, {}};
    for (ValueId v : old.inputs) made.inputs.push_back(v ? body.values.at(v) : ValueId{});
    for (ValueId v : old.outputs) {
      made.results.push_back(renamed(graph_.type(v), body.values));
      made.result_names.push_back(graph_.value(v).name);
    }
    const OpId fresh = body.graph.add(std::move(made));
    for (size_t r = 0; r < old.outputs.size(); ++r) body.values[old.outputs[r]] = body.graph.op(fresh).outputs[r];
  }

  bool is_result(ValueId value, const FusionGroup& group) const {
    const auto& uses = graph_.value(value).uses;
    if (lengths_.contains(value)) return true;  // kernels are told lengths from memory
    return std::any_of(uses.begin(), uses.end(),
                       [&](const Use& use) { return !use.op || !in_group(use.op) || !is_member(use.op, group); });
  }

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
      for (ValueId v : op(id).outputs)
        for (const Extent& e : graph_.type(v).shape)
          if (e.count) add(e.count);
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
    if (root.has("stage")) made.attrs.push_back({"stage", root.integer("stage")});
    std::vector<ValueId> results;
    for (OpId id : group.members) {
      join_origins(made.origins, op(id).origins);
      for (ValueId v : op(id).outputs) {
        if (!is_result(v, group)) continue;
        body.graph.add_output(body.values.at(v), graph_.value(v).name);
        results.push_back(v);
        made.results.push_back(renamed(graph_.type(v), now_, v, v));
        made.result_names.push_back(graph_.value(v).name);
      }
    }
    made.regions.push_back(std::move(body.graph));
    const OpId fresh = made_.add(std::move(made));
    for (size_t r = 0; r < results.size(); ++r) record(results[r], made_.op(fresh).outputs[r]);
  }

  const Module& module_;
  Graph& graph_;
  const Fusion& fusion_;
  const std::vector<OpId> order_;
  std::unordered_set<ValueId> lengths_;  // run-time lengths of extents
  Graph made_;
  std::vector<std::vector<OpId>> unit_ops_;
  std::vector<int> unit_of_;
  std::unordered_map<ValueId, ValueId> now_;  // old values to new ones
  std::unordered_map<ValueId, std::vector<ValueId>> late_counts_;
};

/// A Reshape to the same shape behind the value, which becomes a kernel that copies; in the stage of the value, or of
/// its reader where the value has none.
ValueId copy_of(Graph& graph, ValueId v, OpId reader = {}) {
  const Op like = graph.producer_op(v);
  const TensorType type = graph.type(v);
  Attrs attrs = {{"allowzero", int64_t{1}}, {"shape", type.dims()}};
  const Op& in_stage = like.has("stage") || !reader ? like : graph.op(reader);
  if (in_stage.has("stage")) attrs.push_back({"stage", in_stage.integer("stage")});
  return graph.result(graph.add({OpKind::Reshape,
                                 {v},
                                 {type},
                                 std::move(attrs),
                                 {},
                                 like.place,
                                 graph.value(v).name + ".copy",
                                 like.origins,
                                 like.transform,
                                 {}},
                                graph.next(graph.producer(v))));
}

bool is_kind(const Graph& graph, ValueId v, OpKind kind) { return v && graph.producer_op(v).kind == kind; }

bool is_true(const Module& module, const Graph& graph, ValueId v) {
  return is_kind(graph, v, OpKind::Constant) &&
         module.constants.tensor(graph.producer_op(v).constant("value")).int_at(0);
}

/// A Constant op of one true, in front of `before`.
ValueId add_true(Module& module, Graph& graph, const Op& like, OpId before) {
  NewOp made;
  made.kind = OpKind::Constant;
  made.results = {{DType::Bool, {}, {}}};
  made.attrs = {{"value", module.constants.add(like.name + "/true", Tensor::scalar(DType::Bool, 1))}};
  made.place = like.place;
  made.name = like.name + "/true";
  made.origins = like.origins;
  return graph.result(graph.add(std::move(made), before));
}

/// A loop that may end early starts from a condition in memory; one that may not needs none.
void store_condition(Module& module, Graph& graph, OpId loop) {
  const ValueId start = graph.op(loop).inputs[1];
  Graph& body = graph.edit(loop).regions[0];
  const ValueId inner = body.inputs()[1], next = body.outputs()[0].value;
  if (start && !is_kind(graph, start, OpKind::Constant)) return;
  const bool starts = !start || is_true(module, graph, start);
  const Op like = graph.op(loop);
  if (starts && (is_true(module, body, next) || next == inner)) {
    if (!body.value(inner).uses.empty()) body.replace_uses(inner, add_true(module, body, like, body.first()));
    return;
  }
  graph.set_input(loop, 1, copy_of(graph, start ? start : add_true(module, graph, like, loop), loop));
}

/// The value whose memory it is: what Reshapes outside kernels lie upon.
ValueId memory_of(const Graph& graph, ValueId v) {
  while (is_kind(graph, v, OpKind::Reshape)) v = graph.producer_op(v).inputs[0];
  return v;
}

/// A Transfer moves what one micro-batch made: a part of an input is copied first.
void copy_moved_inputs(Graph& graph) {
  for (OpId id : graph.order())
    if (graph.op(id).kind == OpKind::Transfer &&
        is_kind(graph, memory_of(graph, graph.op(id).inputs[0]), OpKind::Input))
      graph.set_input(id, 0, copy_of(graph, graph.op(id).inputs[0]));
}

/// Constants that enter a collective, a condition or a loop's start must lie in a buffer.
void copy_stored_operands(Module& module, Graph& graph) {
  for (OpId id : graph.order()) {
    const OpKind kind = graph.op(id).kind;  // what is added may move the op itself
    size_t first = 0, end = 0;
    if (category(graph.op(id)) == Category::Collective || kind == OpKind::If) end = 1;
    if (kind == OpKind::Loop) {
      store_condition(module, graph, id);
      const ValueId trips = graph.op(id).inputs[0];  // no trips at all: not what a count of 0 means in the Plan
      if (is_kind(graph, trips, OpKind::Constant) && !is_true(module, graph, trips))
        graph.set_input(id, 0, copy_of(graph, trips, id));
      first = 2, end = 2 + static_cast<size_t>(graph.op(id).integer("carried"));
    }
    const bool holds = kind == OpKind::Fused || kind == OpKind::Chunk;
    if (holds) end = graph.op(id).inputs.size();
    for (size_t i = first; i < end; ++i) {
      const Op& reader = graph.op(id);
      if (!is_kind(graph, reader.inputs[i], OpKind::Constant) || (holds && reads_weights(reader, i))) continue;
      // What a Chunk reads whole is copied inside, by the stage that needs it.
      const bool sinks = reader.kind == OpKind::Chunk &&
                         graph.type(reader.inputs[i]) == reader.regions[0].type(reader.regions[0].inputs()[i]);
      if (!sinks) graph.set_input(id, i, copy_of(graph, reader.inputs[i], id));
    }
  }
}

/// A Transfer makes or reads it, through Reshapes: what it moves is one micro-batch's.
bool is_moved(const Graph& graph, ValueId v) {
  if (is_kind(graph, v, OpKind::Transfer)) return true;
  const auto& uses = graph.value(v).uses;
  return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
    if (!use.op) return false;
    const Op& reader = graph.op(use.op);
    return reader.kind == OpKind::Transfer || (reader.kind == OpKind::Reshape && is_moved(graph, reader.outputs[0]));
  });
}

/// So must results; those of a region need a buffer of their own, but for what a loop hands on as it is.
void copy_stored_results(const Module& module, Graph& graph, const Op* owner) {
  std::vector<ValueId> seen;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId v = graph.outputs()[i].value;
    const bool loop = owner && owner->kind == OpKind::Loop;
    if (loop && (graph.inputs()[i + 1] == v || (i == 0 && is_true(module, graph, v)))) continue;
    const ValueId memory = memory_of(graph, v);
    const bool twice = owner && std::find(seen.begin(), seen.end(), memory) != seen.end();
    seen.push_back(memory);
    const bool lent = is_kind(graph, memory, OpKind::Input) || is_moved(graph, memory);
    if (is_kind(graph, v, OpKind::Constant) || (owner && (twice || lent))) graph.set_output(i, copy_of(graph, v));
  }
}

/// Whether a region may make the value itself: a constant, a pattern, views of constants.
bool is_sinkable(const Graph& graph, ValueId v) {
  const Op& op = graph.producer_op(v);
  if (op.kind == OpKind::Constant || op.kind == OpKind::Iota) return true;
  return is_load_view(op) && op.outputs.size() == 1 && is_sinkable(graph, op.inputs[0]);
}

/// The value made again inside a region, before `before`.
ValueId sink(const Graph& graph, ValueId v, Graph& region, OpId before, const std::string& name) {
  const Op& op = graph.producer_op(v);
  NewOp made{op.kind, {}, {graph.type(v)}, op.attrs, {}, op.place, op.name, op.origins, op.transform, {name}};
  for (ValueId input : op.inputs) made.inputs.push_back(sink(graph, input, region, before, graph.value(input).name));
  return region.result(region.add(std::move(made), before));
}

/// Constants that a Chunk reads whole stand in its body: there they are literals or weights like any other.
void sink_constants(Graph& graph, OpId chunk) {
  Graph& region = graph.edit(chunk).regions[0];
  for (size_t i = graph.op(chunk).inputs.size(); i-- > 0;) {
    const ValueId outer = graph.op(chunk).inputs[i], parameter = region.inputs()[i];
    if (!is_sinkable(graph, outer) || graph.type(outer) != region.type(parameter)) continue;
    region.replace_uses(parameter, sink(graph, outer, region, region.first(), region.value(parameter).name + ".again"));
    region.erase(region.producer(parameter));
    graph.remove_input(chunk, i);
  }
}

void fuse(Module& module, Graph& graph, const Op* owner, const Target& target) {
  copy_stored_operands(module, graph);
  if (owner && owner->kind == OpKind::Chunk) copy_moved_inputs(graph);
  for (OpId id : graph.order()) {
    if (graph.op(id).kind == OpKind::Chunk) sink_constants(graph, id);
    Op& op = graph.edit(id);
    if (op.kind == OpKind::Fused) continue;
    for (Graph& inner : op.regions) fuse(module, inner, &op, target);
  }
  copy_stored_results(module, graph, owner);
  const Fusion fusion = decide_fusion(module, graph, target, owner != nullptr);
  module.remarks.insert(module.remarks.end(), fusion.near_misses.begin(), fusion.near_misses.end());
  Graph fused = KernelOutliner(module, graph, fusion).run();
  graph = std::move(fused);
}

}  // namespace

void fuse_regions(Module& module, const Env& env) { fuse(module, module.graph, nullptr, env.target); }

}  // namespace weftc

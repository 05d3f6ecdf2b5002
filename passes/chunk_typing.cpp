// Types ops on the mesh with one more axis, run in time (C1, C2 of passes/README.md), and contracts them into a Chunk.
#include <algorithm>
#include <set>

#include "ir/base/check.h"
#include "ir/exchange_types.h"
#include "passes/layout_rules.h"
#include "passes/region.h"
#include "passes/transforms.h"

namespace weft {

namespace {

using Kind = AxisState::Kind;

class Typing {
 public:
  Typing(const Module& module, const Graph& graph, const std::map<ValueId, AxisState>& seeds, int chunks,
         bool unchecked)
      : module_(module), graph_(graph), seeds_(seeds), chunks_(chunks), unchecked_(unchecked) {}

  ChunkTyping run(const std::vector<OpId>& ops) {
    out_.ops = ops;
    for (OpId id : ops)
      for (ValueId v : graph_.op(id).outputs) made_.insert(v);
    for (OpId id : ops) {
      type_op(id);
      check_operands(id);
      if (!out_.refusal.empty()) break;
    }
    if (out_.refusal.empty() && !unchecked_) check_shared_operands();
    return std::move(out_);
  }

 private:
  Mesh mesh(const Op& op) const {
    Mesh mesh = module_.mesh(graph_, op.place);
    mesh.push_back({"chunk", chunks_});
    return mesh;
  }
  Layout arriving(ValueId v) const {
    if (const auto at = out_.inside.find(v); at != out_.inside.end()) return at->second;
    Layout layout = graph_.type(v).layout;
    const auto seed = seeds_.find(v);
    if (seed != seeds_.end())
      layout.set(static_cast<int>(module_.mesh(graph_, graph_.producer_op(v).place).size()), seed->second);
    return layout;
  }
  void type_op(OpId id);
  void type_collective(OpId id);
  void type_fused(OpId id);
  void type_settled(OpId id);
  void record(OpId id, ValueId result, Layout layout);
  void check_operands(OpId id);
  void check_shared_operands();
  bool demand(ValueId v, AxisState state, int time);

  const Module& module_;
  const Graph& graph_;
  const std::map<ValueId, AxisState>& seeds_;
  const int chunks_;
  const bool unchecked_;
  std::set<ValueId> made_;
  ChunkTyping out_;
};

void Typing::type_op(OpId id) {
  const Op& op = graph_.op(id);
  if (op.kind == OpKind::Fused) return type_fused(id);
  if (category(op) == Category::Collective) return type_collective(id);
  if (category(op) == Category::Region) {
    out_.refusal = format("'{}' ({}) cannot run in chunks", op.name, op_def(op).name);
    return;
  }
  if (category(op) == Category::Source) {
    record(id, op.outputs[0], graph_.type(op.outputs[0]).layout);
    return;
  }
  type_settled(id);
}

// What comes from outside is cut by the chunks beside the slices it has.
void Typing::check_operands(OpId id) {
  const Op& op = graph_.op(id);
  for (uint32_t i = 0; i < op.inputs.size() && out_.refusal.empty(); ++i) {
    const auto needed = out_.operands.find({id, i});
    if (needed == out_.operands.end()) continue;
    TensorType type = graph_.type(op.inputs[i]);
    type.layout = needed->second;
    if (const std::string wrong = check_layout(type, mesh(graph_.producer_op(op.inputs[i]))); !wrong.empty())
      out_.refusal = format("'{}' cannot be cut into chunks: {}", graph_.value(op.inputs[i]).name, wrong);
  }
}

// A value from outside enters once: all that read it read all of it, or the same slices.
void Typing::check_shared_operands() {
  std::map<ValueId, std::pair<OpId, AxisState>> readers;
  for (const auto& [slot, needed] : out_.operands) {
    const Op& op = graph_.op(slot.first);
    const ValueId v = op.inputs[slot.second];
    if (made_.contains(v)) continue;
    const AxisState state = needed[static_cast<int>(module_.mesh(graph_, graph_.producer_op(v).place).size())];
    const auto& [other, first] = readers.emplace(v, std::pair{slot.first, state}).first->second;
    if (first == state) continue;
    out_.refusal = format("'{}' is {} over the chunks for '{}', but {} for '{}'; leave one of these out",
                          graph_.value(v).name, state_text(first), graph_.op(other).name, state_text(state), op.name);
    return;
  }
}

void Typing::record(OpId id, ValueId result, Layout layout) {
  TensorType type = graph_.type(result);
  type.layout = layout;
  const Mesh axes = mesh(graph_.op(id));
  if (const std::string wrong = check_layout(type, axes); !wrong.empty())
    out_.refusal = format("the result of '{}' cannot be cut into chunks: {}", graph_.op(id).name, wrong);
  out_.inside[result] = std::move(layout);
}

// A slice of a chunk is asked of a value that is whole: free where it comes from outside, also through a local slice.
bool Typing::demand(ValueId v, AxisState state, int time) {
  if (!made_.contains(v)) return true;
  const OpId producer = graph_.producer(v);
  if (graph_.op(producer).kind != OpKind::ShardSlice || graph_.value(v).uses.size() > 1) return false;
  if (!demand(graph_.op(producer).inputs[0], state, time)) return false;
  out_.inside.at(v).set(time, state);
  out_.operands.at({producer, 0}).set(time, state);
  return true;
}

// A collective leaves the time axis as it is.
void Typing::type_collective(OpId id) {
  const Op& op = graph_.op(id);
  if (joins_tensors(op) || has_root(op.kind)) {
    out_.refusal =
        format("'{}' ({}) joins what each rank has by itself, which chunks would cut", op.name, op_def(op).name);
    return;
  }
  const int time = static_cast<int>(
      module_.mesh(graph_, op.kind == OpKind::Transfer ? graph_.producer_op(op.inputs[0]).place : op.place).size());
  const int result_time = static_cast<int>(mesh(op).size()) - 1;
  const Layout from = arriving(op.inputs[0]);
  const bool reduces = op.kind == OpKind::AllReduce || op.kind == OpKind::ReduceScatter;
  if (from[time].is(Kind::P) && !(reduces && op.text("reduce") == "sum" && from[time].op == ReduceOp::Sum)) {
    out_.refusal =
        format("'{}' would move partial sums over the chunks: only what accumulates after it may be partial", op.name);
    return;
  }
  Layout to = graph_.type(op.outputs[0]).layout;
  to.set(result_time, from[time]);
  out_.operands[{id, 0}] = from;
  record(id, op.outputs[0], to);
}

// A region that a step before made: its ops are typed like any others.
void Typing::type_fused(OpId id) {
  const Op& op = graph_.op(id);
  const Graph& body = op.regions[0];
  std::map<ValueId, AxisState> seeds;
  const int time = static_cast<int>(mesh(op).size()) - 1;
  for (size_t i = 0; i < op.inputs.size(); ++i) seeds[body.inputs()[i]] = arriving(op.inputs[i])[time];
  std::vector<OpId> ops;
  for (OpId inner : body.order())
    if (body.op(inner).kind != OpKind::Input) ops.push_back(inner);
  const ChunkTyping inner = Typing(module_, body, seeds, chunks_, unchecked_).run(ops);
  out_.refusal = inner.refusal;
  if (!out_.refusal.empty()) return;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    Layout layout = graph_.type(op.inputs[i]).layout;
    layout.set(time, seeds[body.inputs()[i]]);
    for (const auto& [slot, needed] : inner.operands)
      if (body.op(slot.first).inputs[slot.second] == body.inputs()[i] && needed[time].is(Kind::S))
        layout.set(time, needed[time]);
    if (!(layout == arriving(op.inputs[i])) && !demand(op.inputs[i], layout[time], time)) {
      out_.refusal = format("'{}' does not depend on the chunk, but '{}' reads a slice of it",
                            graph_.value(op.inputs[i]).name, op.name);
      return;
    }
    out_.operands[{id, static_cast<uint32_t>(i)}] = layout;
  }
  for (size_t r = 0; r < op.outputs.size(); ++r) record(id, op.outputs[r], inner.inside.at(body.outputs()[r].value));
}

void Typing::type_settled(OpId id) {
  const Op& op = graph_.op(id);
  const Mesh axes = mesh(op);
  const int time = static_cast<int>(axes.size()) - 1;
  std::vector<Layout> now;
  for (ValueId v : op.inputs) now.push_back(v ? arriving(v) : Layout{});
  const Settled settled = settle(OpView(module_, graph_, op), axes, now);
  for (size_t i = 0; i < now.size(); ++i) {
    if (!op.inputs[i]) continue;
    const AxisState before = now[i][time], after = settled.operands[i][time];
    const bool local = before.is(Kind::R) && after.is(Kind::S) && demand(op.inputs[i], after, time);
    if (!(before == after) && !local && unchecked_) continue;
    if (!(before == after) && !local) {
      out_.refusal = before.is(Kind::R) ? format("'{}' does not depend on the chunk, but '{}' reads a slice of it",
                                                 graph_.value(op.inputs[i]).name, op.name)
                     : before.is(Kind::P)
                         ? format("'{}' is not linear in '{}', which is a partial sum over the chunks", op.name,
                                  graph_.value(op.inputs[i]).name)
                         : format("'{}' needs all of '{}' along dimension {}, which is cut into chunks", op.name,
                                  graph_.value(op.inputs[i]).name, before.dim);
      return;
    }
    out_.operands[{id, static_cast<uint32_t>(i)}] = settled.operands[i];
  }
  for (size_t r = 0; r < op.outputs.size(); ++r) {
    Layout layout = settled.results[r];
    const auto carried =
        unchecked_ && layout[time].is(Kind::R) ? carried_blindly(graph_, op, r, time, now) : std::nullopt;
    if (carried) layout.set(time, *carried);
    record(id, op.outputs[r], layout);
  }
}

/// Gives the values of a region the types of its body in chunks.
void retype_in_chunks(const Module& module, Graph& region, const std::vector<Layout>& parameters, int chunks,
                      bool unchecked) {
  region.time_axes.push_back({"chunk", chunks});
  const auto set = [&](ValueId v, const Layout& layout) {
    TensorType type = region.type(v);
    type.layout = layout;
    region.retype(v, type);
  };
  std::map<ValueId, AxisState> seeds;
  std::vector<OpId> ops;
  Graph before = region;  // typed as it was, without the time axis
  before.time_axes.pop_back();
  for (size_t p = 0; p < parameters.size(); ++p) {
    const ValueId v = region.inputs()[p];
    seeds[v] = parameters[p][static_cast<int>(module.mesh(before, before.producer_op(v).place).size())];
    set(v, parameters[p]);
  }
  for (OpId id : region.order())
    if (region.op(id).kind != OpKind::Input) ops.push_back(id);
  const ChunkTyping typing = Typing(module, before, seeds, chunks, unchecked).run(ops);
  WEFT_CHECK(typing.refusal.empty(), "a chunk that was typed does not type again: " + typing.refusal);
  for (const auto& [value, layout] : typing.inside) set(value, layout);
  for (OpId id : ops)
    for (Graph& inner : region.edit(id).regions) {
      std::vector<Layout> inner_parameters;
      for (uint32_t i = 0; i < region.op(id).inputs.size(); ++i)
        inner_parameters.push_back(typing.operands.at({id, i}));
      retype_in_chunks(module, inner, inner_parameters, chunks, unchecked);
    }
}

}  // namespace

std::optional<AxisState> carried_blindly(const Graph& graph, const Op& op, size_t result, int axis,
                                         const std::vector<Layout>& arriving) {
  const Dims to = graph.type(op.outputs[result]).dims();
  for (size_t i = 0; i < arriving.size(); ++i) {
    const AxisState state = arriving[i][axis];
    if (state.is(Kind::P)) return state;
    if (!state.is(Kind::S)) continue;
    const Dims from = graph.type(op.inputs[i]).dims();
    const size_t dim = static_cast<size_t>(state.dim);
    if (dim < to.size() && to[dim] == from[dim]) return state;
  }
  return {};
}

ChunkTyping type_in_chunks(const Module& module, const Graph& graph, const std::vector<OpId>& ops,
                           const std::map<ValueId, AxisState>& seeds, int chunks, bool unchecked) {
  return Typing(module, graph, seeds, chunks, unchecked).run(ops);
}

OpId make_chunk(Module& module, const ChunkTyping& typing, int chunks, const std::string& name, Attrs attrs,
                TransformId transform, bool unchecked) {
  Graph& graph = module.graph;
  const RegionPlan plan = plan_region(graph, typing.ops);
  std::vector<Layout> parameters;
  for (ValueId v : plan.operands) {
    Layout layout = graph.type(v).layout;
    for (const auto& [slot, needed] : typing.operands)
      if (graph.op(slot.first).inputs[slot.second] == v) layout = needed;  // all readers agree
    parameters.push_back(layout);
  }
  attrs.push_back({"chunks", static_cast<int64_t>(chunks)});
  const OpId id = contract(graph, plan, {OpKind::Chunk, std::move(attrs), name, transform});
  retype_in_chunks(module, graph.edit(id).regions[0], parameters, chunks, unchecked);
  return id;
}

}  // namespace weft

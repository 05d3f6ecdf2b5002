// Types ops on the mesh with one more axis, run in time (C1, C2 of README.md), and contracts them into a Chunk.
//
// States are propagated forward from the values that are cut. Where an op then reads a slice of a value that is made
// whole inside, the slice is requested from the op that makes it. Such requests go back to values from outside and to
// ops without operands (constants, index patterns, draws). The ops are typed again until no op requests more. The last
// typing is a consistent forward typing, whatever was requested before.
#include <algorithm>
#include <set>

#include "ir/base/check.h"
#include "ir/exchange_types.h"
#include "passes/layout/layout_rules.h"
#include "passes/transform/region.h"
#include "passes/transform/transforms.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

class ChunkTyper {
 public:
  ChunkTyper(const Module& module, const Graph& graph, const std::map<ValueId, AxisState>& seeds, int chunks,
             const UncheckedRules* unchecked)
      : module_(module), graph_(graph), seeds_(seeds), chunks_(chunks), unchecked_(unchecked) {
    std::erase_if(seeds_, [](const auto& seed) { return seed.second.is(Kind::R); });
  }

  ChunkTypes run(const std::vector<OpId>& ops) {
    for (OpId id : ops)
      for (ValueId v : graph_.op(id).outputs) made_.insert(v);
    for (const auto& [value, state] : seeds_)
      if (made_.contains(value) && state.is(Kind::S)) asked_.insert({value, {state, ""}});
    type(ops);
    while (out_.refusal.empty() && !unchecked_) {
      const std::optional<std::pair<ValueId, AxisState>> cut = differing_operand();
      if (!cut || !seeds_.insert(*cut).second) break;
      ChunkTypes differs = out_;
      type(ops);
      if (!out_.refusal.empty()) out_ = std::move(differs);
    }
    return std::move(out_);
  }

 private:
  Mesh mesh(const Op& op) const {
    Mesh mesh = module_.mesh(graph_, op.place);
    mesh.push_back({"chunk", chunks_});
    return mesh;
  }
  /// The layout with which an op gets a value in a chunk: as typed inside, or as it comes from outside.
  Layout arriving(ValueId v) const {
    if (const auto at = out_.inside.find(v); at != out_.inside.end()) return at->second;
    Layout layout = graph_.type(v).layout;
    const auto seed = seeds_.find(v);
    if (seed != seeds_.end())
      layout.set(static_cast<int>(module_.mesh(graph_, graph_.producer_op(v).place).size()), seed->second);
    return layout;
  }
  /// Types the ops until no op requests more.
  void type(const std::vector<OpId>& ops) {
    do pass(ops);
    while (asked_more_);
  }
  /// Types the ops once, up to the first that is refused.
  void pass(const std::vector<OpId>& ops) {
    asked_more_ = false;
    out_ = {};
    out_.ops = ops;
    for (OpId id : ops) {
      type_op(id);
      check_operands(id);
      if (!out_.refusal.empty()) {
        out_.refused = id;
        return;
      }
      ++out_.typed;
    }
  }
  void type_op(OpId id);
  void type_collective(OpId id);
  void type_fused(OpId id);
  void type_settled(OpId id);
  void type_source(OpId id);
  std::optional<OpLayouts> settle_asked(const Op& op, const Mesh& axes, const std::vector<Layout>& now,
                                        OpLayouts forward);
  void refuse_unsliced(ValueId v, const std::string& reader);
  /// The slice that readers want of a value made inside; R if no reader wants one.
  AxisState asked(ValueId v) const {
    const auto at = asked_.find(v);
    return at == asked_.end() ? AxisState{} : at->second.state;
  }
  void record(OpId id, ValueId result, Layout layout);
  void check_operands(OpId id);
  std::optional<std::pair<ValueId, AxisState>> differing_operand();
  bool demand(ValueId v, AxisState state, const std::string& reader);

  const Module& module_;
  const Graph& graph_;
  std::map<ValueId, AxisState> seeds_;  // of values from outside, how they arrive
  const int chunks_;
  const UncheckedRules* unchecked_;
  std::set<ValueId> made_;
  struct SliceRequest {
    AxisState state;
    std::string reader;  // "": a seed
  };
  std::map<ValueId, SliceRequest> asked_;  // slices of values made inside
  bool asked_more_ = false;
  ChunkTypes out_;
};

void ChunkTyper::type_op(OpId id) {
  const Op& op = graph_.op(id);
  if (op.kind == OpKind::Fused) return type_fused(id);
  if (category(op) == Category::Collective) return type_collective(id);
  if (category(op) == Category::Region) {
    out_.refusal = format("'{}' ({}) cannot run in chunks", op.name, op_def(op).name);
    return;
  }
  if (category(op) == Category::Source) return type_source(id);
  type_settled(id);
}

/// Why a value cannot be cut into chunks as its layout on `axes` says, the last of which is the axis of the chunks; ""
/// if it can.
static std::string why_not_in_chunks(const TensorType& type, const Mesh& axes) {
  const AxisState chunk = type.layout[static_cast<int>(axes.size()) - 1];
  const bool is_sliced = chunk.is(AxisState::Kind::S) && chunk.dim < type.ndim();
  if (is_sliced && type.shape[static_cast<size_t>(chunk.dim)].is_run_time())
    return format("dimension {} has a run-time length", chunk.dim);
  return check_layout(type, axes);
}

// An operand from outside is cut by the chunks in addition to its slices; that must be a legal layout.
void ChunkTyper::check_operands(OpId id) {
  const Op& op = graph_.op(id);
  for (uint32_t i = 0; i < op.inputs.size() && out_.refusal.empty(); ++i) {
    const auto needed = out_.operands.find({id, i});
    if (needed == out_.operands.end()) continue;
    TensorType type = graph_.type(op.inputs[i]);
    type.layout = needed->second;
    if (const std::string wrong = why_not_in_chunks(type, mesh(graph_.producer_op(op.inputs[i]))); !wrong.empty())
      out_.refusal = format("'{}' cannot be cut into chunks: {}", graph_.value(op.inputs[i]).name, wrong);
  }
}

/// A value from outside enters once: all that read it read all of it, or the same slices. Refuses other values. If some
/// read the value whole and others in slices, it may be cut for all: returns the value and the slices.
std::optional<std::pair<ValueId, AxisState>> ChunkTyper::differing_operand() {
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
    return std::pair{v, first.is(Kind::S) ? first : state};
  }
  return {};
}

void ChunkTyper::record(OpId id, ValueId result, Layout layout) {
  TensorType type = graph_.type(result);
  type.layout = layout;
  const Mesh axes = mesh(graph_.op(id));
  if (const std::string wrong = why_not_in_chunks(type, axes); !wrong.empty())
    out_.refusal = format("the result of '{}' cannot be cut into chunks: {}", graph_.op(id).name, wrong);
  out_.inside[result] = std::move(layout);
}

// Requests a slice of a chunk from a value that is whole. That is free if the value comes from outside; a value made
// inside is made in slices the next time. False where another reader has asked for another slice, or it was asked for
// in vain.
bool ChunkTyper::demand(ValueId v, AxisState state, const std::string& reader) {
  if (!made_.contains(v)) return true;
  const auto [at, is_new] = asked_.insert({v, {state, reader}});
  asked_more_ |= is_new;
  return at->second.state == state && asked_more_;
}

void ChunkTyper::refuse_unsliced(ValueId v, const std::string& reader) {
  out_.refusal =
      format("'{}' does not depend on the chunk, but '{}' reads a slice of it", graph_.value(v).name, reader);
}

// An element of a draw or of an index pattern depends on its position only, so that it can be made in any slices; a
// stored value is read in its layout.
void ChunkTyper::type_source(OpId id) {
  const Op& op = graph_.op(id);
  const ValueId made = op.outputs[0];
  if (asked(made).is(Kind::S) && !op_def(op).factors && !unchecked_)
    return refuse_unsliced(made, asked_.at(made).reader);
  Layout layout = graph_.type(made).layout;
  layout.set(static_cast<int>(mesh(op).size()) - 1, asked(made));
  record(id, made, layout);
}

// A collective leaves the time axis as it is; partial sums over the chunks may not pass it.
void ChunkTyper::type_collective(OpId id) {
  const Op& op = graph_.op(id);
  if (joins_tensors(op) || has_root(op.kind)) {
    out_.refusal =
        format("'{}' ({}) joins what each rank has by itself, which chunks would cut", op.name, op_def(op).name);
    return;
  }
  const int time = static_cast<int>(
      module_.mesh(graph_, op.kind == OpKind::Transfer ? graph_.producer_op(op.inputs[0]).place : op.place).size());
  const int result_time = static_cast<int>(mesh(op).size()) - 1;
  Layout from = arriving(op.inputs[0]);
  const bool reduces = op.kind == OpKind::AllReduce || op.kind == OpKind::ReduceScatter;
  if (from[time].is(Kind::P) && !(reduces && op.text("reduce") == "sum" && from[time].op == ReduceOp::Sum)) {
    out_.refusal =
        format("'{}' would move partial sums over the chunks: only what accumulates after it may be partial", op.name);
    return;
  }
  if (const AxisState slice = asked(op.outputs[0]); slice.is(Kind::S) && from[time].is(Kind::R)) {
    if (!demand(op.inputs[0], slice, op.name)) return refuse_unsliced(op.inputs[0], op.name);
    from.set(time, slice);
  }
  Layout to = graph_.type(op.outputs[0]).layout;
  to.set(result_time, from[time]);
  out_.operands[{id, 0}] = from;
  record(id, op.outputs[0], to);
}

// A region that an earlier step made: its ops are typed like any others.
void ChunkTyper::type_fused(OpId id) {
  const Op& op = graph_.op(id);
  const Graph& body = op.regions[0];
  std::map<ValueId, AxisState> seeds;
  const int time = static_cast<int>(mesh(op).size()) - 1;
  for (size_t i = 0; i < op.inputs.size(); ++i) seeds[body.inputs()[i]] = arriving(op.inputs[i])[time];
  for (size_t r = 0; r < op.outputs.size(); ++r)
    if (asked(op.outputs[r]).is(Kind::S)) seeds.insert({body.outputs()[r].value, asked(op.outputs[r])});
  std::vector<OpId> ops;
  for (OpId inner : body.order())
    if (body.op(inner).kind != OpKind::Input) ops.push_back(inner);
  const ChunkTypes inner = ChunkTyper(module_, body, seeds, chunks_, unchecked_).run(ops);
  out_.refusal = inner.refusal;
  out_.typed += inner.typed;
  if (!out_.refusal.empty()) return;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    Layout layout = graph_.type(op.inputs[i]).layout;
    layout.set(time, seeds[body.inputs()[i]]);
    for (const auto& [slot, needed] : inner.operands)
      if (body.op(slot.first).inputs[slot.second] == body.inputs()[i] && needed[time].is(Kind::S))
        layout.set(time, needed[time]);
    if (!(layout == arriving(op.inputs[i])) && !demand(op.inputs[i], layout[time], op.name))
      return refuse_unsliced(op.inputs[i], op.name);
    out_.operands[{id, static_cast<uint32_t>(i)}] = layout;
  }
  for (size_t r = 0; r < op.outputs.size(); ++r) record(id, op.outputs[r], inner.inside.at(body.outputs()[r].value));
}

/// How the op settles if slices of its results are requested; nothing after a refusal.
std::optional<OpLayouts> ChunkTyper::settle_asked(const Op& op, const Mesh& axes, const std::vector<Layout>& now,
                                                  OpLayouts forward) {
  const int time = static_cast<int>(axes.size()) - 1;
  for (size_t r = 0; r < op.outputs.size(); ++r) {
    const AxisState slice = asked(op.outputs[r]);
    if (!slice.is(Kind::S) || !forward.results[r][time].is(Kind::R)) continue;
    std::optional<OpLayouts> found = settle_for(OpView(module_, graph_, op), axes, now, time, r, slice);
    if (!found && !unchecked_) {
      refuse_unsliced(op.outputs[r], asked_.at(op.outputs[r]).reader);
      return {};
    }
    forward = found ? std::move(*found) : unchecked_->cut(graph_, op, r, time, slice, std::move(forward));
  }
  return forward;
}

/// Types an op by the layout rules with the time axis. A reshard on that axis is a refusal (C2), except for a slice of
/// a whole value, which a chunk takes locally.
void ChunkTyper::type_settled(OpId id) {
  const Op& op = graph_.op(id);
  const Mesh axes = mesh(op);
  const int time = static_cast<int>(axes.size()) - 1;
  std::vector<Layout> now;
  for (ValueId v : op.inputs) now.push_back(v ? arriving(v) : Layout{});
  const std::optional<OpLayouts> found = settle_asked(op, axes, now, settle(OpView(module_, graph_, op), axes, now));
  if (!found) return;
  const OpLayouts& settled = *found;
  for (size_t i = 0; i < now.size(); ++i) {
    if (!op.inputs[i]) continue;
    const AxisState before = now[i][time], after = settled.operands[i][time];
    const bool local = before.is(Kind::R) && after.is(Kind::S) && demand(op.inputs[i], after, op.name);
    if (!(before == after) && !local && unchecked_) continue;
    if (!(before == after) && !local) {
      if (before.is(Kind::R)) return refuse_unsliced(op.inputs[i], op.name);
      out_.refusal = before.is(Kind::P) ? format("'{}' is not linear in '{}', which is a partial sum over the chunks",
                                                 op.name, graph_.value(op.inputs[i]).name)
                                        : format("'{}' needs all of '{}' along dimension {}, which is cut into chunks",
                                                 op.name, graph_.value(op.inputs[i]).name, before.dim);
      return;
    }
    out_.operands[{id, static_cast<uint32_t>(i)}] = settled.operands[i];
  }
  for (size_t r = 0; r < op.outputs.size(); ++r) {
    Layout layout = settled.results[r];
    const auto carried =
        unchecked_ && layout[time].is(Kind::R) ? unchecked_->carried(graph_, op, r, time, now) : std::nullopt;
    if (carried) layout.set(time, *carried);
    record(id, op.outputs[r], layout);
  }
}

/// The layouts in chunks of a region's parameters and results, or of all values that its ops make, in order. The latter
/// include a draw that is added up over the chunks, which no result requests in slices.
struct RegionLayouts {
  std::vector<Layout> parameters, results, made;
};

/// Gives the values of a region the types of its body in chunks.
void retype_in_chunks(const Module& module, Graph& region, const RegionLayouts& edges, int chunks,
                      const UncheckedRules* unchecked) {
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
  const auto seed = [&](ValueId v, const Layout& layout) {
    seeds.insert({v, layout[static_cast<int>(module.mesh(before, before.producer_op(v).place).size())]});
  };
  for (size_t p = 0; p < edges.parameters.size(); ++p) {
    seed(region.inputs()[p], edges.parameters[p]);
    set(region.inputs()[p], edges.parameters[p]);
  }
  for (size_t r = 0; r < edges.results.size(); ++r) seed(region.outputs()[r].value, edges.results[r]);
  auto made = edges.made.begin();
  for (OpId id : region.order())
    for (ValueId v : region.op(id).outputs)
      if (region.op(id).kind != OpKind::Input && made != edges.made.end()) seed(v, *made++);
  for (OpId id : region.order())
    if (region.op(id).kind != OpKind::Input) ops.push_back(id);
  const ChunkTypes typing = ChunkTyper(module, before, seeds, chunks, unchecked).run(ops);
  WEFT_CHECK(typing.refusal.empty(), "a chunk that was typed does not type again: " + typing.refusal);
  for (const auto& [value, layout] : typing.inside) set(value, layout);
  for (OpId id : ops)
    for (Graph& inner : region.edit(id).regions) {
      RegionLayouts inner_edges;
      for (uint32_t i = 0; i < region.op(id).inputs.size(); ++i)
        inner_edges.parameters.push_back(typing.operands.at({id, i}));
      for (ValueId v : region.op(id).outputs) inner_edges.results.push_back(typing.inside.at(v));
      retype_in_chunks(module, inner, inner_edges, chunks, unchecked);
    }
}

}  // namespace

ChunkTypes type_in_chunks(const Module& module, const Graph& graph, const std::vector<OpId>& ops,
                          const std::map<ValueId, AxisState>& seeds, int chunks, const UncheckedRules* unchecked) {
  return ChunkTyper(module, graph, seeds, chunks, unchecked).run(ops);
}

OpId make_chunk(Module& module, const ChunkTypes& typing, int chunks, const std::string& name, Mechanism mechanism,
                TransformId transform, const UncheckedRules* unchecked) {
  Graph& graph = module.graph;
  const RegionPlan plan = plan_region(graph, typing.ops);
  RegionLayouts edges;
  for (OpId id : plan.ops)
    for (ValueId v : graph.op(id).outputs) edges.made.push_back(typing.inside.at(v));
  for (ValueId v : plan.operands) {
    Layout layout = graph.type(v).layout;
    for (const auto& [slot, needed] : typing.operands)
      if (graph.op(slot.first).inputs[slot.second] == v) layout = needed;  // all readers agree
    edges.parameters.push_back(layout);
  }
  const OpId id = contract(graph, plan, {OpKind::Chunk, {{"chunks", static_cast<int64_t>(chunks)}}, name, transform});
  graph.edit(id).mechanism = mechanism;
  retype_in_chunks(module, graph.edit(id).regions[0], edges, chunks, unchecked);
  return id;
}

}  // namespace weftc

// overlap: ops run in k chunks of one dim, so that a contraction's chunk c + 1 is computed while chunk c is
// communicated.
//
//   %y = MatMul(%x, %w)                  %ag = Chunk(%x, %w, %b) {k = 4} {
//   %ag = Fused(%y, %b) {...}    ->        %y = MatMul(%x, %w) : [tp: P(sum), chunk: S(0,16)]
//                                          %ag = Fused(%y, %b) : [chunk: S(0,16)] }
//
// Legal iff the body types on the mesh with the time axis without any reshard on it (C2). `mechanism` chooses how the
// chunks run. With streams, each op is a step. With signal, the computation is one kernel, which signals or waits for a
// flag of each chunk. With fused, all is one kernel, in which collectives are exchanges over the peer table.
//
// Without chunks, collectives run whole on the stream "comm" beside the computation that does not need them.
//
// All ranks take the chunks in one order. A chunk holds a part of every rank's slice (C3), so all ranks have something
// to send in each. An order that begins elsewhere on each rank would only make them wait for each other.
#include <algorithm>
#include <iterator>
#include <set>

#include "ir/base/contains.h"
#include "ir/exchange_types.h"
#include "passes/transform/region.h"
#include "passes/transform/transforms.h"
#include "passes/update_ops.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

/// A collective, or a kernel around one.
bool meets_ranks(const Op& op) {
  if (op.kind != OpKind::Fused) return is_exchange(op);
  const std::vector<OpId> body = op.regions[0].order();
  return std::any_of(body.begin(), body.end(), [&](OpId id) { return is_exchange(op.regions[0].op(id)); });
}

/// True if an op gives a kernel something to compute.
bool computes(const Op& op) {
  const Category c = category(op);
  return c != Category::Source && c != Category::View && c != Category::Collective && !meets_ranks(op);
}

/// A kernel over the peer table does the work of this collective.
bool can_be_kernel(const StepContext& step, const Op& op) {
  if (op.kind != OpKind::AllReduce && op.kind != OpKind::ReduceScatter && op.kind != OpKind::AllGather) return false;
  const Mesh mesh = step.module.mesh(step.graph(), op.place);
  for (ValueId v : {op.inputs[0], op.outputs[0]})
    for (int d = 0; d < step.graph().type(v).ndim(); ++d)
      if (is_ragged(step.graph().type(v).shape[d], digits_of(step.graph().type(v).layout, d, mesh))) return false;
  return true;
}

/// The conditions of `signal` and `fused` on the ops; reports the one that is not met.
bool can_be_kernels(const StepContext& step, const OverlapStep& what, const std::vector<OpId>& ops) {
  if (what.mechanism == Mechanism::Streams) return true;
  const Graph& graph = step.graph();
  const char* name = mechanism_name(what.mechanism);
  const auto any = [&](bool (*is)(const Op&)) {
    return std::any_of(ops.begin(), ops.end(), [&](OpId id) { return is(graph.op(id)); });
  };
  const char* missing = !any(meets_ranks) ? "collective" : !any(computes) ? "computation" : nullptr;
  if (missing) {
    step.diags.error("overlap-one-sided", step.loc,
                     "mechanism: {} joins a computation and a collective, and there is no {} among these ops", name,
                     missing);
    return false;
  }
  for (OpId id : ops) {
    const Op& op = graph.op(id);
    if (what.mechanism != Mechanism::Fused || !is_exchange(op) || can_be_kernel(step, op)) continue;
    step.diags.error("overlap-collective-unsupported", step.loc,
                     "mechanism: fused cannot make a kernel of '{}' ({}): only of all-reduces, reduce-scatters and "
                     "all-gathers of even slices; take mechanism: signal",
                     op.name, op_def(op).name);
    return false;
  }
  return true;
}

/// Each collective outside of a region becomes a kernel over the peer table, of the same name; `counted` follows.
void make_collective_kernels(const StepContext& step, std::vector<OpId>& ops, ValueId& counted) {
  Graph& graph = step.graph();
  for (OpId& id : ops) {
    if (!is_exchange(graph.op(id))) continue;
    const std::string name = graph.op(id).name;
    const bool makes_counted = graph.producer(counted) == id;
    const OpId made = contract(graph, plan_region(graph, {id}),
                               {OpKind::Fused, {{"by", std::string("schedule")}}, name + "/kernel", step.transform});
    graph.rename_op(made, name);
    if (makes_counted) counted = graph.result(made);
    id = made;
  }
}

/// Blocks with which the chunked dim may be cut, large ones first, so that a chunk is in few pieces: the extent, and
/// every block with which the mesh slices a dim (C3 takes the smallest on the chunked dim, if there is one).
std::vector<int64_t> candidate_blocks(const Graph& graph, const std::vector<OpId>& ops, int64_t extent) {
  std::set<int64_t> blocks{extent};
  const auto add = [&](const Graph& g, ValueId v) {
    const Layout& layout = g.type(v).layout;
    for (int a = 0; a < layout.size(); ++a)
      if (layout[a].is(Kind::S) && extent % layout[a].block == 0) blocks.insert(layout[a].block);
  };
  for (OpId id : ops) {
    for (ValueId v : graph.op(id).outputs) add(graph, v);
    for (ValueId v : graph.op(id).inputs)
      if (v) add(graph, v);
    for (const Graph& region : graph.op(id).regions)
      for (OpId inner : region.order())
        for (ValueId v : region.op(inner).outputs) add(region, v);
  }
  return {blocks.rbegin(), blocks.rend()};
}

/// The result whose dim the chunks cut: the result of the first node listed, however many parts it has. None: it is an
/// input or a weight.
ValueId counted_result(const Graph& graph, const std::vector<OpId>& ops, const std::vector<OpId>& named) {
  OpId last;
  for (OpId id : named) {
    if (!contains(ops, id)) continue;
    if (!last || graph.op(id).origins == graph.op(last).origins) last = id;
  }
  return last ? graph.op(last).outputs[0] : ValueId{};
}

/// The smallest mesh block on a dim that the chunks cut, in the body: C3's b.
int64_t smallest_block(const Module& module, const Graph& graph, const ChunkTypes& typing, ValueId first) {
  int64_t smallest = graph.type(first).shape[0].bound;
  bool any = false;
  for (const auto& [value, layout] : typing.inside) {
    const int time = static_cast<int>(module.mesh(graph, graph.producer_op(value).place).size());
    if (!layout[time].is(Kind::S)) continue;
    for (int a = 0; a < time; ++a)
      if (layout[a].is(Kind::S) && layout[a].dim == layout[time].dim) {
        smallest = any ? std::min(smallest, layout[a].block) : layout[a].block;
        any = true;
      }
  }
  return any ? smallest : 0;
}

/// Why results that leave the region cannot: one that is the same in every chunk is no part of anything (C1).
std::string leaving_refusal(const Module& module, const Graph& graph, const RegionPlan& plan,
                            const ChunkTypes& typing) {
  for (ValueId v : plan.results) {
    const Op& op = graph.producer_op(v);
    const int time = static_cast<int>(module.mesh(graph, op.place).size());
    if (const Layout& layout = typing.inside.at(v); !layout[time].is(Kind::S) && !layout[time].is(Kind::P))
      return format("'{}' does not depend on the chunk, but its result is read outside; leave it out", op.name);
  }
  return "";
}

/// The conditions on pipelines that must hold before layouts are checked; reports a violation. In a pipeline, blocks
/// decide when messages between places are sent, and when the ops after the micro-batches run.
bool can_be_in_pipeline(const StepContext& step, const RegionPlan& plan) {
  if (!step.module.pipeline) return true;
  const Op* first = nullptr;
  for (const OpId id : plan.ops) {
    const Op& op = step.graph().op(id);
    if (op.block && !first) first = &op;
    if (op.kind == OpKind::Transfer)
      step.diags.error(
          "overlap-transfer-unsupported", step.loc,
          "'{}' takes values from stage to stage: in a pipeline it runs whole, beside what does not need it", op.name);
    else if (is_of_update(step.module, op))
      step.diags.error("overlap-update-unsupported", step.loc,
                       "'{}' belongs to an update, which in a pipeline runs whole after the micro-batches", op.name);
    else if (op.block && op.block != first->block)
      step.diags.error(
          "overlap-blocks", step.loc,
          "'{}' and '{}' run in different blocks of the pipeline, '{}' and '{}': their chunks would not run "
          "one after the other",
          first->name, op.name, step.module.pipeline->blocks[static_cast<size_t>(*first->block)].name,
          step.module.pipeline->blocks[static_cast<size_t>(*op.block)].name);
    if (!step.diags.ok()) return false;
  }
  return true;
}

bool can_overlap(const StepContext& step, const OverlapStep& what, ValueId counted, const RegionPlan& plan) {
  if (!counted) {
    step.diags.error("overlap-dim", step.loc,
                     "`dim` counts in what the first of `ops` makes, and '{}' is an input or a weight",
                     step.name(what.ops.front().text));
    return false;
  }
  const int ndim = step.graph().type(counted).ndim();
  if (what.dim < 0 || what.dim >= ndim) {
    step.diags.error("overlap-dim", step.loc, "'{}' has {} dimensions, there is no dimension {}",
                     step.name(what.ops.front().text), ndim, what.dim);
    return false;
  }
  if (plan.between) {
    step.diags.error("overlap-not-convex", step.loc,
                     "'{}' stands between these ops: it reads one and another reads it; list it too or leave one out",
                     step.graph().op(plan.between).name);
    return false;
  }
  return can_be_in_pipeline(step, plan) && can_be_kernels(step, what, plan.ops);
}

/// A typing of the ops in chunks, or the refusal of the candidate that came furthest.
struct Search {
  std::optional<ChunkTypes> typing;
  bool divisible = false;
  std::string refusal;
  size_t typed = 0;  // ops of that candidate
};

Search find_typing(const StepContext& step, const OverlapStep& what, const RegionPlan& plan, ValueId counted) {
  const Graph& graph = step.graph();
  const int time = static_cast<int>(step.module.mesh(graph, graph.producer_op(counted).place).size());
  const Extent extent = graph.type(counted).shape[what.dim];
  Search search;
  for (int64_t block : candidate_blocks(graph, plan.ops, extent.bound)) {
    if (block % what.chunks || extent.is_run_time()) continue;
    search.divisible = true;
    const AxisState slice = AxisState::sliced(what.dim, block / what.chunks);
    ChunkTypes typing = type_in_chunks(step.module, graph, plan.ops, {{counted, slice}}, what.chunks, step.unchecked);
    if (!typing.inside.contains(counted) || !(typing.inside.at(counted)[time] == slice)) continue;
    if (typing.refusal.empty() && !step.unchecked) typing.refusal = leaving_refusal(step.module, graph, plan, typing);
    if (!typing.refusal.empty() && (search.refusal.empty() || typing.typed > search.typed))
      search.refusal = typing.refusal, search.typed = typing.typed;
    if (!typing.refusal.empty()) continue;
    const int64_t smallest = smallest_block(step.module, graph, typing, counted);
    if (smallest && smallest != block) continue;
    search.typing = std::move(typing);
    return search;
  }
  return search;
}

/// The ops without the leading ones that only change the form of values from outside.
std::vector<OpId> without_front(const Graph& graph, const std::vector<OpId>& ops, ValueId counted,
                                bool (*can_stay)(const Op&)) {
  std::set<OpId> front;
  for (OpId id : ops) {
    const Op& op = graph.op(id);
    const bool from_outside = std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId v) {
      return !v || front.contains(graph.producer(v)) || !contains(ops, graph.producer(v));
    });
    if (can_stay(op) && from_outside && op.outputs[0] != counted) front.insert(id);
  }
  std::vector<OpId> after;
  std::copy_if(ops.begin(), ops.end(), std::back_inserter(after), [&](OpId id) { return !front.contains(id); });
  return after;
}

/// Views can stay outside, where chunks do not cut them.
bool is_view(const Op& op) { return category(op) == Category::View; }

/// A local slice of a replicated value is neither computation nor exchange: a step of its own, no part of a kernel.
bool is_local_slice(const Op& op) { return op.kind == OpKind::ShardSlice; }

void report(const StepContext& step, const OverlapStep& what, const Search& search, ValueId counted) {
  const std::string first = step.name(what.ops.front().text);
  const Extent& extent = step.graph().type(counted).shape[what.dim];
  if (extent.is_run_time())
    step.diags.error("overlap-run-time", step.loc,
                     "dimension {} of '{}' has the run-time length {}, which cannot be cut into chunks: choose another "
                     "dimension, or pin it with --dim",
                     what.dim, first, extent.length->text());
  else if (!search.divisible)
    step.diags.error("overlap-indivisible", step.loc,
                     "{} chunks do not divide the slices of dimension {} of '{}' (extent {})", what.chunks, what.dim,
                     first, extent.bound);
  else if (search.refusal.empty())
    step.diags.error("overlap-dim-not-parallel", step.loc, "dimension {} of '{}' cannot be computed in parts", what.dim,
                     first);
  else
    step.diags.error("overlap-reshard", step.loc, "these ops cannot run in chunks: {}", search.refusal);
}

}  // namespace

/// Collectives that run whole.
static void run_beside(const StepContext& step, const OverlapStep& what) {
  Graph& graph = step.graph();
  std::vector<OpId> named;
  for (const Selector& selector : what.ops)
    for (const OpId id : step.select(selector))
      if (graph.op(id).kind != OpKind::ShardSlice) named.push_back(id);
  for (const OpId id : named) {
    const Op& op = graph.op(id);
    if (!meets_ranks(op) || op.kind == OpKind::Transfer)
      step.diags.error("overlap-no-collective", step.loc,
                       "'{}' ({}) is no collective: without `chunks`, collectives run beside what does not need them",
                       op.name, op_def(op).name);
    graph.edit(id).mechanism = Mechanism::Beside;
    graph.edit(id).transform = step.transform;
  }
}

void overlap_ops(const StepContext& step, const OverlapStep& what) {
  if (what.chunks == 0) return run_beside(step, what);
  Graph& graph = step.graph();
  std::vector<OpId> ops = step.select_all(what.ops);
  if (ops.empty() || !step.diags.ok()) return;
  ValueId counted = counted_result(graph, ops, step.select(what.ops.front()));
  if (counted && what.mechanism != Mechanism::Streams) ops = without_front(graph, ops, counted, is_local_slice);
  if (!can_overlap(step, what, counted, plan_region(graph, ops))) return;
  if (what.mechanism == Mechanism::Fused) make_collective_kernels(step, ops, counted);
  Search search = find_typing(step, what, plan_region(graph, ops), counted);
  const std::vector<OpId> after = without_front(graph, ops, counted, is_view);
  if (!search.typing && after.size() < ops.size())
    search.typing = find_typing(step, what, plan_region(graph, after), counted).typing;
  if (!search.typing) return report(step, what, search, counted);
  make_chunk(step.module, *search.typing, what.chunks, step.module.transforms[step.transform.index].text,
             what.mechanism, step.transform, step.unchecked);
}

}  // namespace weftc

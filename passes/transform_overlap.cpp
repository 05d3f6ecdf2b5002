// overlap: ops run in k chunks of one dim, so that a contraction's chunk c + 1 is computed while chunk c is
// communicated.
//
//   %y = MatMul(%x, %w)                  %ag = Chunk(%x, %w, %b) {k = 4} {
//   %ag = Fused(%y, %b) {...}    ->        %y = MatMul(%x, %w) : [tp: P(sum), chunk: S(0,16)]
//                                          %ag = Fused(%y, %b) : [chunk: S(0,16)] }
//
// Legal iff the body types on the mesh with the time axis without any reshard on it (C2).
#include <algorithm>
#include <set>

#include "passes/region.h"
#include "passes/transforms.h"

namespace weft {

namespace {

using Kind = AxisState::Kind;

/// Blocks with which the chunked dim may be cut: the extent, and every block with which the mesh slices a dim (C3 takes
/// the smallest that fits).
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
  return {blocks.begin(), blocks.end()};
}

/// The operands of the first op that have the dim to cut, as seeds of the typing; every operand is tried alone, because
/// the op's rule slices the others to agree.
std::vector<std::map<ValueId, AxisState>> candidate_seeds(const Graph& graph, const Op& first, int64_t extent,
                                                          int64_t block) {
  std::vector<std::map<ValueId, AxisState>> seeds;
  for (ValueId v : first.inputs)
    for (int d = 0; v && d < graph.type(v).ndim(); ++d)
      if (graph.type(v).shape[d].bound % block == 0 && graph.type(v).shape[d].bound >= extent)
        seeds.push_back({{v, AxisState::sliced(d, block)}});
  return seeds;
}

/// The smallest mesh block on a dim that the chunks cut, in the body: C3's b.
int64_t smallest_block(const Module& module, const Graph& graph, const ChunkTyping& typing, ValueId first) {
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
                            const ChunkTyping& typing) {
  for (ValueId v : plan.results) {
    const Op& op = graph.producer_op(v);
    const int time = static_cast<int>(module.mesh(graph, op.place).size());
    if (const Layout& layout = typing.inside.at(v); !layout[time].is(Kind::S) && !layout[time].is(Kind::P))
      return format("'{}' does not depend on the chunk, but its result is read outside; leave it out", op.name);
  }
  return "";
}

}  // namespace

void overlap_ops(const StepContext& step, const OverlapStep& what) {
  Graph& graph = step.graph();
  const std::vector<OpId> ops = step.select_all(what.ops);
  if (ops.empty() || !step.diags.ok()) return;
  const std::vector<OpId> named = step.select(what.ops.front());
  const Op& first = graph.op(named.front());
  const ValueId result = first.outputs[0];
  if (what.mechanism != OverlapStep::Mechanism::Streams) {
    step.diags.error("overlap-mechanism-unsupported", step.loc, "only mechanism: streams is built so far");
    return;
  }
  if (what.dim < 0 || what.dim >= graph.type(result).ndim()) {
    step.diags.error("overlap-dim", step.loc, "'{}' has {} dimensions, there is no dimension {}", first.name,
                     graph.type(result).ndim(), what.dim);
    return;
  }
  const RegionPlan plan = plan_region(graph, ops);
  if (plan.between) {
    step.diags.error("overlap-not-convex", step.loc,
                     "'{}' stands between these ops: it reads one and another reads it; list it too or leave one out",
                     graph.op(plan.between).name);
    return;
  }
  const int64_t extent = graph.type(result).shape[what.dim].bound;
  std::string refusal;
  bool divisible = false;
  for (int64_t block : candidate_blocks(graph, ops, extent)) {
    if (block % what.chunks || graph.type(result).shape[what.dim].count) continue;
    divisible = true;
    for (const auto& seeds : candidate_seeds(graph, first, extent, block / what.chunks)) {
      ChunkTyping typing = type_in_chunks(step.module, graph, ops, seeds, what.chunks, step.unchecked);
      const int time = static_cast<int>(step.module.mesh(graph, first.place).size());
      const bool cuts_dim = typing.inside.contains(result) &&
                            typing.inside.at(result)[time] == AxisState::sliced(what.dim, block / what.chunks);
      if (typing.refusal.empty() && !step.unchecked) typing.refusal = leaving_refusal(step.module, graph, plan, typing);
      if (!typing.refusal.empty() && cuts_dim) refusal = typing.refusal;
      if (!typing.refusal.empty() || !cuts_dim) continue;
      const int64_t smallest = smallest_block(step.module, graph, typing, result);
      if (smallest && smallest != block) continue;
      const Attrs attrs = {{"mechanism", std::string("streams")}};
      make_chunk(step.module, typing, what.chunks, step.module.transforms[step.transform.index].text, attrs,
                 step.transform, step.unchecked);
      return;
    }
  }
  if (!divisible)
    step.diags.error("overlap-indivisible", step.loc,
                     "{} chunks do not divide the slices of dimension {} of '{}' (extent {})", what.chunks, what.dim,
                     first.name, extent);
  else if (refusal.empty())
    step.diags.error("overlap-dim-not-parallel", step.loc, "dimension {} of '{}' cannot be computed in parts", what.dim,
                     first.name);
  else
    step.diags.error("overlap-reshard", step.loc, "these ops cannot run in chunks: {}", refusal);
}

}  // namespace weft

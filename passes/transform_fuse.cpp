// fuse: ops, with at most one reduction in front and one all-gather behind, become one region, hence one kernel over
// the peer table.
//
//   %rs = ReduceScatter(%y), %bias = Add(%rs, %b), %ag = AllGather(%bias)   ->   %ag = Fused(%y, %b) { the same }
#include <algorithm>

#include "passes/region.h"
#include "passes/transforms.h"

namespace weft {

namespace {

bool is_collective(const Op& op) { return category(op) == Category::Collective && op.kind != OpKind::ShardSlice; }

/// What a kernel computes by element, from whatever else it computes.
bool is_fusable(const Op& op) {
  const Category c = category(op);
  const bool scatter = op.kind == OpKind::ScatterElements || op.kind == OpKind::ScatterND;
  return !is_collective(op) && !scatter && c != Category::Region && c != Category::Contraction;
}

/// What one kernel cannot hold; "" if it can.
std::string cannot_fuse(const StepContext& step, const RegionPlan& plan) {
  const Graph& graph = step.graph();
  int reductions = 0, gathers = 0;
  for (OpId id : plan.ops) {
    const Op& op = graph.op(id);
    if (!(op.place == graph.op(plan.ops[0]).place)) return format("'{}' runs in another place", op.name);
    if (op.kind == OpKind::ReduceScatter || op.kind == OpKind::AllReduce)
      ++reductions;
    else if (op.kind == OpKind::AllGather)
      ++gathers;
    else if (!is_fusable(op))
      return format(
          "'{}' ({}) is neither pointwise, a view, a reduction of rows, a reduce-scatter, an all-reduce nor an "
          "all-gather",
          op.name, op_def(op).name);
    for (ValueId v : op.outputs)
      for (int d = 0; is_collective(op) && d < graph.type(v).ndim(); ++d)
        if (is_ragged(graph.type(v).shape[d].bound,
                      digits_of(graph.type(v).layout, d, step.module.mesh(graph, op.place))))
          return format("'{}' has a ragged slice, whose ranks hold different lengths", op.name);
  }
  if (reductions > 1 || gathers > 1) return "a fused kernel holds one reduction and one all-gather at most";
  return "";
}

/// The collectives of one kernel meet the same ranks.
std::string differing_axes(const Graph& graph, const RegionPlan& plan) {
  const Op* first = nullptr;
  for (OpId id : plan.ops) {
    const Op& op = graph.op(id);
    if (!is_collective(op)) continue;
    if (first && first->ints("axes") != op.ints("axes"))
      return format("'{}' and '{}' join different axes", first->name, op.name);
    first = &op;
  }
  return "";
}

}  // namespace

void fuse_ops(const StepContext& step, const FuseStep& what) {
  const std::vector<OpId> ops = step.select_all(what.ops);
  if (ops.empty() || !step.diags.ok()) return;
  const RegionPlan plan = plan_region(step.graph(), ops);
  std::string why = cannot_fuse(step, plan);
  if (why.empty()) why = differing_axes(step.graph(), plan);
  if (!why.empty()) {
    step.diags.error("fuse-kernel", step.loc, "these ops do not make one kernel: {}", why);
    return;
  }
  if (plan.between) {
    step.diags.error("fuse-not-convex", step.loc,
                     "'{}' stands between these ops: it reads one and another reads it; list it too or leave one out",
                     step.graph().op(plan.between).name);
    return;
  }
  if (!step.is_free(step.name(what.into), what.into_loc.kind == Loc::Kind::None ? step.loc : what.into_loc)) return;
  contract(step.graph(), plan,
           {OpKind::Fused, {{"by", std::string("schedule")}}, step.name(what.into), step.transform});
}

}  // namespace weft

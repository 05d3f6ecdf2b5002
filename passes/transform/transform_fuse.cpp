// fuse: makes one region of ops, hence one kernel. With collectives it is a kernel over the peer table. Its ranks meet.
// Every rank then reduces its part of its peers' operands, computes on it, and writes its result into the results of
// all ranks. Then they meet again.
//
//   %rs = ReduceScatter(%y), %bias = Add(%rs, %b), %ag = AllGather(%bias)   ->   %ag = Fused(%y, %b) { the same }
//
// So each value needs one meeting on its way in and one on its way out, which any number of values share: many small
// tensors, scattered in memory, need no copy into one. A value may be cast before the reduction: it is sent in the type
// that it has in memory, and added in that of the reduction (16-bit floats in float).
#include <algorithm>
#include <set>

#include "ir/exchange_types.h"
#include "passes/transform/transforms.h"

namespace weftc {

namespace {

bool is_collective(const Op& op) { return category(op) == Category::Collective && op.kind != OpKind::ShardSlice; }

bool is_reduction_over_ranks(const Op& op) { return op.kind == OpKind::ReduceScatter || op.kind == OpKind::AllReduce; }

/// True for ops that a kernel computes element by element, whatever else it computes.
bool is_fusable(const Op& op) {
  const Category c = category(op);
  const bool is_whole = op.kind == OpKind::ScatterElements || op.kind == OpKind::ScatterND || op.kind == OpKind::TopK ||
                        op.kind == OpKind::TruePositions || op.kind == OpKind::BoxChoice;
  return !is_collective(op) && !is_whole && c != Category::Region && c != Category::Contraction;
}

/// Why an op has no place in a kernel; "" if it has.
std::string cannot_hold(const StepContext& step, const Op& op, bool peers) {
  const Graph& graph = step.graph();
  const bool exchanges = is_reduction_over_ranks(op) || op.kind == OpKind::AllGather;
  if (category(op) == Category::Contraction && peers)
    return format("'{}' ({}) is a contraction, and a kernel that meets other ranks holds none; overlap joins them",
                  op.name, op_def(op).name);
  if (!exchanges && !is_fusable(op) && category(op) != Category::Contraction)
    return format(
        "'{}' ({}) is neither pointwise, a view, a reduction of rows, a reduce-scatter, an all-reduce nor an "
        "all-gather",
        op.name, op_def(op).name);
  const Mesh mesh = step.module.mesh(graph, op.place);
  for (ValueId v : op.outputs)
    for (int d = 0; is_collective(op) && d < graph.type(v).ndim(); ++d)
      if (is_ragged(graph.type(v).shape[d], digits_of(graph.type(v).layout, d, mesh)))
        return format("'{}' has a ragged slice, whose ranks hold different lengths", op.name);
  return "";
}

/// True if the kernel reads the operand of a reduction on the peers: it comes from outside, by views and casts.
bool is_read_from_peers(const Graph& graph, const std::set<OpId>& inside, ValueId v) {
  while (inside.contains(graph.producer(v))) {
    const Op& op = graph.producer_op(v);
    if (category(op) != Category::View && op.kind != OpKind::Cast) return false;
    v = op.inputs[0];
  }
  return true;
}

/// The ranks meet before a kernel reads and after it writes: nothing is reduced that the kernel computes, nothing read
/// that it gathers.
std::string wrong_order(const Graph& graph, const RegionPlan& plan) {
  const std::set<OpId> inside(plan.ops.begin(), plan.ops.end());
  for (OpId id : plan.ops) {
    const Op& op = graph.op(id);
    if (is_reduction_over_ranks(op) && !is_read_from_peers(graph, inside, op.inputs[0]))
      return format(
          "'{}' reduces what '{}' makes inside: only an operand from outside, by views and casts, can be read "
          "from the other ranks",
          op.name, graph.producer_op(op.inputs[0]).name);
    for (ValueId v : op.inputs)
      if (v && inside.contains(graph.producer(v)) && graph.producer_op(v).kind == OpKind::AllGather)
        return format("'{}' reads what '{}' gathers: the other ranks' parts are there only after the kernel", op.name,
                      graph.producer_op(v).name);
  }
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

/// The reason why one kernel cannot hold the ops; "" if it can.
std::string cannot_fuse(const StepContext& step, const RegionPlan& plan) {
  const Graph& graph = step.graph();
  const auto is = [&](auto&& holds) {
    return std::count_if(plan.ops.begin(), plan.ops.end(), [&](OpId id) { return holds(graph.op(id)); });
  };
  const bool peers = is(is_collective) > 0;
  for (OpId id : plan.ops) {
    const Op& op = graph.op(id);
    if (!(op.place == graph.op(plan.ops[0]).place)) return format("'{}' runs in another place", op.name);
    if (const Op& first = graph.op(plan.ops[0]); op.block && first.block && op.block != first.block)
      return format("'{}' runs in another block of the pipeline", op.name);
    if (const std::string why = cannot_hold(step, op, peers); !why.empty()) return why;
  }
  if (is([](const Op& op) { return category(op) == Category::Contraction; }) > 1)
    return "a kernel holds one contraction at most";
  const std::string why = wrong_order(graph, plan);
  return why.empty() ? differing_axes(graph, plan) : why;
}

}  // namespace

bool can_fuse(const StepContext& step, const RegionPlan& plan) {
  return cannot_fuse(step, plan).empty() && !plan.between;
}

void make_kernel(const StepContext& step, const std::vector<OpId>& ops, const std::string& name, const Loc& name_loc) {
  const RegionPlan plan = plan_region(step.graph(), ops);
  const std::string why = cannot_fuse(step, plan);
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
  if (!step.is_free(name, name_loc.kind == Loc::Kind::None ? step.loc : name_loc)) return;
  contract(step.graph(), plan, {OpKind::Fused, {{"by", std::string("schedule")}}, name, step.transform});
}

void fuse_ops(const StepContext& step, const FuseStep& what) {
  if (what.bucket) return fuse_in_buckets(step, what);
  const std::vector<OpId> ops = step.select_all(what.ops);
  if (!ops.empty() && step.diags.ok()) make_kernel(step, ops, step.name(what.into), what.into_loc);
}

}  // namespace weftc

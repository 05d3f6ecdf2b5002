// fuse with `bucket`: many collectives become a few kernels over the peer table, each of which brings at least that
// many bytes, so that small ones do not cost their ranks two meetings each.
//
//   %s0 = AllReduce(%g0), .. %s7 = AllReduce(%g7)   ->   %s0, .. %s4 = Fused(%g0, .. %g4) { .. }      "grads.0"
//                                                        %s5, .. %s7 = Fused(%g5, .. %g7) { .. }      "grads.1"
//
// Buckets are filled in the order of the graph, in which a backward pass makes its gradients: the first is sent while
// those of the next are computed. A bucket ends early before a collective that depends on one in it. In a training,
// sums of the batch alone (the number of labels that count) have buckets of their own: derivatives are divided by them.
//
// In a bucket, an all-reduce is a reduce-scatter and an all-gather where its ranks divide dimension 0. Each rank adds
// up its slice and writes it to all, so that with n ranks a gradient is read twice instead of n times.
#include <algorithm>
#include <iterator>
#include <set>

#include "ir/exchange_types.h"
#include "passes/graph_order.h"
#include "passes/transform/region.h"
#include "passes/transform/transforms.h"

namespace weftc {

namespace {

/// True for collectives of the same ranks, in a pipeline at the same time.
bool may_share(const Op& a, const Op& b) {
  return a.place == b.place && axes_of(a) == axes_of(b) && a.block == b.block;
}

/// A rank's bytes of the operand or the result, whichever is larger.
int64_t bytes_of(const StepContext& step, const Op& op) {
  const auto bytes = [&](ValueId v) {
    const TensorType& type = step.graph().type(v);
    int64_t count = 1;
    for (const int64_t extent : buffer_dims(type, step.module.mesh(step.graph(), op.place))) count *= extent;
    return count * dtype_bytes(type.dtype);
  };
  return std::max(bytes(op.inputs[0]), bytes(op.outputs[0]));
}

/// The collectives among the selected ops, in graph order; reports any other op. Skips local slices of replicated
/// values, which are no collectives but are named like them.
std::vector<OpId> collectives_of(const StepContext& step, const FuseStep& what) {
  const Graph& graph = step.graph();
  std::set<OpId> found;
  for (const Selector& selector : what.ops)
    for (const OpId id : step.select(selector)) {
      const Op& op = graph.op(id);
      if (op.kind == OpKind::ShardSlice) continue;
      if (!is_exchange(op))
        step.diags.error("bucket-no-collective", step.loc, "'{}' ({}) is no collective: only these go in buckets",
                         op.name, op_def(op).name);
      found.insert(id);
    }
  return found.empty() ? std::vector<OpId>{} : in_graph_order(graph, found);
}

/// Puts the two halves of an all-reduce in its place where slices can be of equal size; else it stays.
std::vector<OpId> halves_of(const StepContext& step, OpId id) {
  Graph& graph = step.graph();
  const Op& op = graph.op(id);
  const TensorType& type = graph.type(op.outputs[0]);
  if (op.kind != OpKind::AllReduce || type.ndim() == 0) return {id};
  const std::optional<Layout> layout = layout_of_slices(step.module, graph, op, 0);
  if (!layout || is_ragged(type.shape[0], digits_of(*layout, 0, step.module.mesh(graph, op.place)))) return {id};
  const std::string name = op.name, value = graph.value(op.outputs[0]).name;
  const Halves halves = split_at(graph, id, *layout, {name + ".scatter", name + ".gather"}, step.transform);
  graph.rename(graph.result(halves.gather), value);
  return {halves.scatter, halves.gather};
}

/// The bucket that is being filled.
class Bucket {
 public:
  Bucket(const StepContext& step, const FuseStep& what) : step_(step), what_(what) {}

  void add(OpId id) {
    if (!takes(id)) close();
    ops_.push_back(id);
    bytes_ += bytes_of(step_, step_.graph().op(id));
    if (bytes_ >= what_.bucket) close();
  }

  /// Makes a kernel of the collectives in the bucket, and begins another bucket.
  void close() {
    std::vector<OpId> ops;
    for (const OpId id : ops_) std::ranges::copy(halves_of(step_, id), std::back_inserter(ops));
    if (!ops.empty()) make_kernel(step_, ops, format("{}.{}", step_.name(what_.into), number_++), what_.into_loc);
    ops_.clear();
    bytes_ = 0;
  }

 private:
  bool takes(OpId id) const {
    std::vector<OpId> ops = ops_;
    ops.push_back(id);
    return ops_.empty() || can_fuse(step_, plan_region(step_.graph(), ops));
  }

  const StepContext& step_;
  const FuseStep& what_;
  std::vector<OpId> ops_;
  int64_t bytes_ = 0;
  int number_ = 0;
};

}  // namespace

void fuse_in_buckets(const StepContext& step, const FuseStep& what) {
  const Graph& graph = step.graph();
  std::vector<OpId> left = collectives_of(step, what);
  if (!step.diags.ok()) return;
  const std::set<ValueId> of_states =
      step.module.training ? values_of(step.module, [&](ValueId input) { return is_state(step.module, input); })
                           : std::set<ValueId>();
  const auto is_of_states = [&](const Op& op) { return of_states.contains(op.inputs[0]); };
  Bucket bucket(step, what);
  while (!left.empty()) {
    const Op first = graph.op(left.front());
    const auto others = std::stable_partition(left.begin(), left.end(), [&](OpId id) {
      return may_share(graph.op(id), first) && is_of_states(graph.op(id)) == is_of_states(first);
    });
    for (auto id = left.begin(); id != others; ++id) bucket.add(*id);
    bucket.close();
    left.erase(left.begin(), others);
  }
}

}  // namespace weftc

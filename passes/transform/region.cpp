// Replaces a convex set of ops by one op with a region:
//
//   a = MatMul(x, w); b = Gelu(a); c = Add(b, y)    {MatMul, Gelu}    ->    b = R(x, w) { a' = MatMul; return Gelu(a')
//   }
#include "passes/transform/region.h"

#include <algorithm>
#include <set>

#include "ir/base/check.h"
#include "ir/base/contains.h"
#include "ir/local_op.h"
#include "ir/named_lengths.h"
#include "passes/graph_order.h"

namespace weftc {

namespace {

/// Ops from the first to the last of the set that are outside it but depend on it.
std::vector<OpId> dependents_between(const Graph& graph, const std::set<OpId>& inside, OpId first, OpId last) {
  std::set<OpId> depends = inside;
  std::vector<OpId> found;
  const LengthHolders lengths(graph);
  for (OpId id = first;; id = graph.next(id)) {
    bool reads = false;
    const auto read = [&](ValueId v) { reads = reads || (v && depends.contains(graph.producer(v))); };
    for (ValueId v : graph.op(id).inputs) read(v);
    lengths.for_each(graph.op(id), read);
    if (!inside.contains(id) && reads) {
      depends.insert(id);
      found.push_back(id);
    }
    if (id == last) return found;
  }
}

/// True if the op reads a result of one of `producers`.
bool reads_any(const Graph& graph, OpId id, const std::vector<OpId>& producers) {
  for (ValueId v : graph.op(id).inputs)
    if (v && contains(producers, graph.producer(v))) return true;
  return false;
}

/// Appends a value that the list does not have yet.
void add_once(std::vector<ValueId>& values, ValueId v) {
  if (!contains(values, v)) values.push_back(v);
}

}  // namespace

RegionPlan plan_region(const Graph& graph, const std::vector<OpId>& ops) {
  const std::set<OpId> inside(ops.begin(), ops.end());
  RegionPlan plan{in_graph_order(graph, inside), {}, {}, {}};
  for (OpId id : plan.ops) {
    for (ValueId v : graph.op(id).inputs)
      if (v && !inside.contains(graph.producer(v))) add_once(plan.operands, v);
    for (ValueId v : graph.op(id).outputs) {
      const auto& uses = graph.value(v).uses;
      if (std::any_of(uses.begin(), uses.end(), [&](const Use& u) { return !u.op || !inside.contains(u.op); }))
        plan.results.push_back(v);
    }
  }
  const std::vector<OpId> dependents = dependents_between(graph, inside, plan.ops.front(), plan.ops.back());
  for (OpId id : plan.ops)
    for (OpId outside : dependents)
      if (!plan.between && reads_any(graph, id, {outside})) plan.between = outside;
  return plan;
}

/// Copies the set into a region; `mapped` gives the region's value of each outside or inside value.
static Graph copy_region(const Graph& graph, const RegionPlan& plan) {
  Graph region;
  region.time_axes = graph.time_axes;
  std::vector<ValueId> mapped(graph.value_capacity());
  for (ValueId v : plan.operands) {
    const std::string& name = graph.value(v).name;
    const PlaceId place = place_of(graph, v);
    const OpId parameter = region.add({OpKind::Input, {}, {graph.type(v)}, {}, {}, place, name, {}, {}, {name}});
    mapped[v.index] = region.result(parameter);
  }
  for (OpId id : plan.ops) {
    const Op& op = graph.op(id);
    NewOp copy = copy_of(op);
    copy.regions = op.regions;
    for (ValueId v : op.inputs) copy.inputs.push_back(v ? mapped[v.index] : ValueId{});
    for (ValueId v : op.outputs) {
      copy.results.push_back(graph.type(v));
      copy.result_names.push_back(graph.value(v).name);
    }
    const OpId made = region.add(std::move(copy));
    for (size_t r = 0; r < op.outputs.size(); ++r) mapped[op.outputs[r].index] = region.op(made).outputs[r];
  }
  for (ValueId v : plan.results) region.add_output(mapped[v.index], graph.value(v).name);
  return region;
}

OpId contract(Graph& graph, const RegionPlan& plan, RegionOp made) {
  WEFT_CHECK(!plan.between, "contracting a set that is not convex");
  const std::set<OpId> inside(plan.ops.begin(), plan.ops.end());
  // Ops that depend on the set are moved after it; the region then stands where its last op stood.
  const OpId last = plan.ops.back(), after = graph.next(last);
  for (OpId id : dependents_between(graph, inside, plan.ops.front(), last)) graph.move_before(id, after);
  NewOp op{made.kind, plan.operands,  {}, std::move(made.attrs), {}, graph.op(last).place, made.name,
           {},        made.transform, {}};
  op.block = graph.op(last).block;
  for (OpId id : plan.ops) {
    const auto& origins = graph.op(id).origins;
    op.origins.insert(op.origins.end(), origins.begin(), origins.end());
  }
  std::vector<std::string> names;
  for (ValueId v : plan.results) {
    op.results.push_back(graph.type(v));
    names.push_back(graph.value(v).name);
  }
  op.regions.push_back(copy_region(graph, plan));
  const OpId id = graph.add(std::move(op), graph.next(last));
  for (size_t r = 0; r < plan.results.size(); ++r) graph.replace_uses(plan.results[r], graph.op(id).outputs[r]);
  for (auto at = plan.ops.rbegin(); at != plan.ops.rend(); ++at) graph.erase(*at);
  for (size_t r = 0; r < names.size(); ++r) graph.rename(graph.op(id).outputs[r], names[r]);
  return id;
}

}  // namespace weftc

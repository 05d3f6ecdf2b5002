// Collects what the ops of a model demand of its run-time lengths, while each op stands for a node:
//
//   %m = Mul(%x, %y) : f32[seq<=8]   with %y : f32[total<=8]     ->     relation seq = total by "node 'scale' (Mul)"
//
// The program checks every request for it, so that the passes behind this one may take the two for one length. What an
// op in a branch or a loop demands is checked where that is run: whether it is becomes a length, 1 or 0.
//
//   If(%c) { Mul(%x, %y) }     ->     %g = NameLength(Cast(%c)),  relation seq = total where g
//
// A branch or loop inside of another one is taken to run whenever the outer one does.
#include "passes/prepare/relate_lengths.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/shape_arithmetic.h"
#include "ir/tied_extents.h"
#include "passes/passes.h"

namespace weftc {

namespace {

std::string node_text(const Module& module, const Op& op) {
  if (op.origins.empty()) return format("'{}' ({})", op.name, op_def(op).name);
  const Origin& origin = module.origins[op.origins[0].index];
  return format("node '{}' ({})", origin.name, origin.op_type);
}

/// True if whoever keeps `a` keeps `b`; an equation may be turned around.
bool implies(const LengthRelation& a, const LengthRelation& b) {
  if (a.may_be_less != b.may_be_less || !(a.where == 1 || a.where == b.where)) return false;
  const Length one = a.right - a.left, other = b.right - b.left;
  return one == other || (!a.may_be_less && one == Length(0) - other);
}

/// Remembers what the op computes, where that is arithmetic on lengths.
void note_shape_values(const OpView& op, ShapeValues& shapes) {
  const std::optional<std::vector<std::vector<Length>>> values = shape_values(op);
  for (size_t r = 0; values && r < values->size(); ++r) shapes.set(op.op().outputs[r], (*values)[r]);
}

/// Adds what the op demands to `relations`; reports what no request can keep.
void relate_op(const OpView& op, std::vector<LengthRelation>& relations) {
  for (LengthRelation& relation : length_relations(op)) {
    const Length room = relation.right - relation.left;
    if (room.high() < 0 || (room.low() > 0 && !relation.may_be_less))
      op.fail("lengths-differ", "length {} cannot be {}{}", relation.left.text(),
              relation.may_be_less ? "at most " : "", relation.right.text());
    relation.what = node_text(op.module(), op.op());
    relations.push_back(std::move(relation));
  }
}

/// What the ops of a graph demand, without those inside of its ops.
void relate_ops(const Module& module, const Graph& graph, Diags& diags, std::vector<LengthRelation>& relations) {
  ShapeValues shapes;
  for (OpId id = graph.first(); id; id = graph.next(id)) {
    const OpView op(module, graph, graph.op(id), &diags, &shapes);
    note_shape_values(op, shapes);
    relate_op(op, relations);
  }
}

/// What the ops of a region demand, and those inside of its ops.
void relate_region(const Module& module, const Graph& region, Diags& diags, std::vector<LengthRelation>& relations) {
  relate_ops(module, region, diags, relations);
  for (OpId id = region.first(); id; id = region.next(id))
    for (const Graph& inner : region.op(id).regions) relate_region(module, inner, diags, relations);
}

bool is_known(const Module& module, const LengthRelation& relation) {
  return std::ranges::any_of(module.relations, [&](const LengthRelation& known) { return implies(known, relation); });
}

/// Adds those that are not known, as demanded `where`.
void keep(Module& module, const std::vector<LengthRelation>& relations, const Length& where) {
  for (LengthRelation relation : relations) {
    relation.where = where;
    if (!is_known(module, relation)) module.relations.push_back(std::move(relation));
  }
}

/// A condition of one element as a length: 1 or 0.
Length truth_of(Builder& build, ValueId condition) {
  const ValueId number = build.cast(condition, DType::I64);
  return length_of(build.counted_extent(build.dims(number).empty() ? number : build.reshape(number, {}), 1));
}

/// Of a Loop: 0 where it makes no trip.
Length trips_of(Builder& build, const OpView& loop) {
  const std::vector<ValueId> inputs = loop.op().inputs;
  Length made = 1;
  if (inputs[0]) {
    const Op& trips = loop.graph().producer_op(inputs[0]);
    const std::optional<Tensor> number = loop.known(0);
    const std::optional<Length> length =
        trips.kind == OpKind::LengthOf ? OpView(loop.module(), loop.graph(), trips).length() : std::nullopt;
    if (number)
      made = number->int_at(0) > 0;
    else if (length)
      made = *length;
    else
      made = truth_of(build, build.op(OpKind::Greater, {inputs[0], build.scalar(inputs[0], 0)}));
  }
  const std::optional<Tensor> goes_on = inputs[1] ? loop.known(1) : Tensor::scalar(DType::Bool, 1);
  if (goes_on) return made * (goes_on->int_at(0) != 0);
  return made * truth_of(build, inputs[1]);
}

/// What the regions of an If or a Loop demand.
void relate_regions(Module& module, OpId id, Diags& diags) {
  Graph& graph = module.graph;
  const Op op = graph.op(id);
  std::vector<std::vector<LengthRelation>> relations(op.regions.size());
  bool has_new = false;
  for (size_t r = 0; r < relations.size(); ++r) {
    relate_region(module, op.regions[r], diags, relations[r]);
    std::erase_if(relations[r], [&](const LengthRelation& relation) { return is_known(module, relation); });
    has_new = has_new || !relations[r].empty();
  }
  if (!has_new) return;
  Builder build(module, graph, id, op);
  if (op.kind == OpKind::Loop) return keep(module, relations[0], trips_of(build, OpView(module, graph, op)));
  const Length is_taken = truth_of(build, op.inputs[0]);
  keep(module, relations[0], is_taken);
  keep(module, relations[1], Length(1) - is_taken);
}

}  // namespace

void relate_composites(Module& module, const Graph& graph, Diags& diags) {
  for (OpId id = graph.first(); id; id = graph.next(id)) {
    const OpView op(module, graph, graph.op(id), &diags);
    for (const Graph& region : op.op().regions) relate_composites(module, region, diags);
    std::vector<LengthRelation> relations;
    if (category(op.op()) == Category::Composite && op_def(op.op()).relate) relate_op(op, relations);
    keep(module, relations, 1);
  }
}

void relate_lengths(Module& module, const Env& env) {
  const Graph& graph = module.graph;
  std::vector<LengthRelation> relations;
  relate_ops(module, graph, env.diags, relations);
  keep(module, relations, 1);
  for (OpId id : graph.order())
    if (!graph.op(id).regions.empty()) relate_regions(module, id, env.diags);
}

}  // namespace weftc

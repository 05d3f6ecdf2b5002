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
#include "ir/ops/step_loop.h"
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
    const std::optional<Length> trips = trip_count(loop);
    made = !trips                 ? truth_of(build, build.op(OpKind::Greater, {inputs[0], build.scalar(inputs[0], 0)}))
           : trips->is_constant() ? Length(trips->constant() > 0)
                                  : *trips;
  }
  const std::optional<Tensor> goes_on = inputs[1] ? loop.known(1) : Tensor::scalar(DType::Bool, 1);
  if (goes_on) return made * (goes_on->int_at(0) != 0);
  return made * truth_of(build, inputs[1]);
}

using Relations = std::vector<LengthRelation>;

class RelationCollector {
 public:
  /// `is_before_parts`: composite ops are still there, of which only the record speaks; and ops that are read for their
  /// shapes only, which the program does not compute.
  RelationCollector(Module& module, Diags& diags, bool is_before_parts)
      : module_(module), diags_(diags), is_before_parts_(is_before_parts) {}

  void run() {
    keep(relations_of(module_.graph, false), 1);
    for (OpId id : module_.graph.order())
      if (!module_.graph.op(id).regions.empty()) relate_regions(id);
  }

 private:
  bool speaks_for_itself(const OpView& op) const;
  void relate_op(const OpView& op, Relations& relations) const;
  Relations relations_of(const Graph& graph, bool with_regions) const;
  void relate_regions(OpId id);
  bool is_known(const LengthRelation& relation) const {
    return std::ranges::any_of(module_.relations,
                               [&](const LengthRelation& known) { return implies(known, relation); });
  }
  void keep(const Relations& relations, const Length& where);

  Module& module_;
  Diags& diags_;
  const bool is_before_parts_;
};

/// False where the parts of an op say more, or say it again: what is demanded in a region has its condition once.
bool RelationCollector::speaks_for_itself(const OpView& op) const {
  if (op_def(op.op()).relate && category(op.op()) == Category::Composite) return true;
  return &op.graph() == &module_.graph && (op_def(op.op()).relate || !decomposes(op));
}

/// Adds what the op demands; an error where no request could keep it.
void RelationCollector::relate_op(const OpView& op, Relations& relations) const {
  if (is_before_parts_ && !speaks_for_itself(op)) return;
  for (LengthRelation& relation : length_relations(op)) {
    const Length room = relation.right - relation.left;
    if (room.high() < 0 || (room.low() > 0 && !relation.may_be_less))
      op.fail("lengths-differ", "length {} cannot be {}{}", relation.left.text(),
              relation.may_be_less ? "at most " : "", relation.right.text());
    relation.what = node_text(module_, op.op());
    relations.push_back(std::move(relation));
  }
}

/// What the ops of a graph demand, and those inside of its ops.
Relations RelationCollector::relations_of(const Graph& graph, bool with_regions) const {
  Relations relations;
  ShapeValues shapes;
  for (OpId id = graph.first(); id; id = graph.next(id)) {
    const OpView op(module_, graph, graph.op(id), &diags_, &shapes);
    const std::optional<std::vector<std::vector<Length>>> values = shape_values(op);
    for (size_t r = 0; values && r < values->size(); ++r) shapes.set(op.op().outputs[r], (*values)[r]);
    relate_op(op, relations);
    for (const Graph& region : op.op().regions)
      for (LengthRelation& inner : with_regions ? relations_of(region, true) : Relations())
        relations.push_back(std::move(inner));
  }
  return relations;
}

/// Adds those that are not known, as demanded `where`.
void RelationCollector::keep(const Relations& relations, const Length& where) {
  for (LengthRelation relation : relations) {
    relation.where = where;
    if (!is_known(relation)) module_.relations.push_back(std::move(relation));
  }
}

/// What the regions of an If or a Loop demand.
void RelationCollector::relate_regions(OpId id) {
  const Op op = module_.graph.op(id);
  std::vector<Relations> relations;
  bool has_new = false;
  for (const Graph& region : op.regions) {
    std::erase_if(relations.emplace_back(relations_of(region, true)),
                  [&](const LengthRelation& relation) { return is_known(relation); });
    has_new = has_new || !relations.back().empty();
  }
  if (!has_new) return;
  Builder build(module_, module_.graph, id, op);
  if (op.kind == OpKind::Loop) return keep(relations[0], trips_of(build, OpView(module_, module_.graph, op)));
  const Length is_taken = truth_of(build, op.inputs[0]);
  keep(relations[0], is_taken);
  keep(relations[1], Length(1) - is_taken);
}

}  // namespace

void relate_nodes(Module& module, Diags& diags) { RelationCollector(module, diags, true).run(); }

void relate_lengths(Module& module, const Env& env) { RelationCollector(module, env.diags, false).run(); }

}  // namespace weftc

// Collects what the ops of a model demand of its run-time lengths, while each op stands for a node:
//
//   %m = Mul(%x, %y) : f32[seq<=8]   with %y : f32[total<=8]     ->     relation seq = total by "node 'scale' (Mul)"
//
// The program checks every request for it, so that the passes behind this one may take the two for one length.
#include "passes/prepare/relate_lengths.h"

#include <algorithm>

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

/// True if both say the same; an equation may be turned around.
bool is_same(const LengthRelation& a, const LengthRelation& b) {
  if (a.may_be_less != b.may_be_less) return false;
  const Length one = a.right - a.left, other = b.right - b.left;
  return one == other || (!a.may_be_less && one == Length(0) - other);
}

/// Remembers what the op computes, where that is arithmetic on lengths.
void note_shape_values(const OpView& op, ShapeValues& shapes) {
  const std::optional<std::vector<std::vector<Length>>> values = shape_values(op);
  for (size_t r = 0; values && r < values->size(); ++r) shapes.set(op.op().outputs[r], (*values)[r]);
}

/// Adds what the op demands; an error where no request could keep it.
void relate_op(Module& module, const OpView& op) {
  for (LengthRelation& relation : length_relations(op)) {
    const Length room = relation.right - relation.left;
    if (room.high() < 0 || (room.low() > 0 && !relation.may_be_less))
      op.fail("lengths-differ", "length {} cannot be {}{}", relation.left.text(),
              relation.may_be_less ? "at most " : "", relation.right.text());
    const auto says_it = [&](const LengthRelation& known) { return is_same(known, relation); };
    if (std::any_of(module.relations.begin(), module.relations.end(), says_it)) continue;
    relation.what = node_text(module, op.op());
    module.relations.push_back(std::move(relation));
  }
}

void relate_graph(Module& module, const Graph& graph, Diags& diags) {
  ShapeValues shapes;
  for (OpId id = graph.first(); id; id = graph.next(id)) {
    const OpView op(module, graph, graph.op(id), &diags, &shapes);
    note_shape_values(op, shapes);
    for (const Graph& region : op.op().regions) relate_graph(module, region, diags);
    relate_op(module, op);
  }
}

}  // namespace

void relate_composites(Module& module, const Graph& graph, Diags& diags) {
  for (OpId id = graph.first(); id; id = graph.next(id)) {
    const OpView op(module, graph, graph.op(id), &diags);
    for (const Graph& region : op.op().regions) relate_composites(module, region, diags);
    if (category(op.op()) == Category::Composite && op_def(op.op()).relate) relate_op(module, op);
  }
}

void relate_lengths(Module& module, const Env& env) { relate_graph(module, module.graph, env.diags); }

}  // namespace weftc

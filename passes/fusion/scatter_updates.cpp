// Adds the updates of looked-up rows to a parameter itself, where its derivative is zero in all other rows.
//
//   g = ScatterND(zeros, i, u), y = Sub(w, Mul(g, r))    ->    y = ScatterND(w, i, Neg(Mul(u, r)))
//
// with one number r. So does gradient descent update an embedding: of a table of 10,000 rows only those change that the
// samples have, and a state that is scattered into is updated in place. A row that is looked up twice is rounded twice.
// An optimizer that keeps averages of derivatives changes every row, and the norm of a derivative reads all of it:
// neither has this form.
//
// It runs after the schedule's transforms, for which the nodes are where the model has them. Numbers of 16 bits are
// left alone: their sums are rounded once.
#include <algorithm>

#include "ir/base/text.h"
#include "passes/fusion/one_step.h"
#include "passes/passes.h"

namespace weftc {

namespace {

/// A parameter less a multiple of what is scattered into zeros.
struct RowUpdate {
  OpId difference, multiple, scatter;
  ValueId parameter, factor;
};

/// The op that makes a value which one operand of one op reads; none: another number of reads.
OpId lone_maker(const Graph& graph, ValueId v) {
  const std::vector<Use>& uses = graph.value(v).uses;
  return uses.size() == 1 && uses[0].op ? graph.producer(v) : OpId{};
}

bool adds_to_zeros(const Op& op) {
  return (op.kind == OpKind::ScatterND || op.kind == OpKind::ScatterElements) && op.integer_or("onto_zeros", 0) != 0 &&
         op.text("reduction") == "add";
}

/// The scatter has the parameter's slices, and no rank a part of the sums alone.
bool is_legal(const Graph& graph, const RowUpdate& found) {
  const TensorType &parameter = graph.type(found.parameter), &factor = graph.type(found.factor);
  const TensorType& updates = graph.type(graph.op(found.scatter).inputs[2]);
  const bool is_wide = parameter.dtype == DType::F32 || parameter.dtype == DType::F64;
  return is_wide && parameter == graph.type(graph.result(found.scatter)) && !parameter.layout.has(AxisState::Kind::P) &&
         is_static(factor.shape) && factor.count() == 1 && factor.layout.is_replicated() &&
         factor.ndim() <= updates.ndim() && are_of_one_step(graph, {found.difference, found.multiple, found.scatter});
}

std::optional<RowUpdate> find(const Graph& graph, OpId id) {
  if (graph.op(id).kind != OpKind::Sub) return {};
  const OpId multiple = lone_maker(graph, graph.op(id).inputs[1]);
  if (!multiple || graph.op(multiple).kind != OpKind::Mul) return {};
  for (const size_t which : {0, 1}) {
    const OpId scatter = lone_maker(graph, graph.op(multiple).inputs[which]);
    if (!scatter || !adds_to_zeros(graph.op(scatter))) continue;
    const RowUpdate found{id, multiple, scatter, graph.op(id).inputs[0], graph.op(multiple).inputs[1 - which]};
    if (is_legal(graph, found)) return found;
  }
  return {};
}

/// A pointwise op on the updates, with the name and origins of the op that it stands for.
ValueId of_updates(Graph& graph, const RowUpdate& found, OpKind kind, std::vector<ValueId> inputs, std::string name) {
  NewOp made = copy_of(graph.op(found.multiple));
  made.kind = kind;
  made.name = std::move(name);
  made.results = {graph.type(inputs[0])};
  made.inputs = std::move(inputs);
  return graph.result(graph.add(std::move(made), found.difference));
}

/// Puts the scatter into the parameter in place of the difference, whose names it takes.
void scatter(Graph& graph, const RowUpdate& found) {
  const std::string change = graph.op(found.multiple).name, name = graph.op(found.difference).name;
  const ValueId old = graph.result(found.difference);
  graph.rename_op(found.multiple, change + "/whole");
  graph.rename_op(found.difference, name + "/whole");
  const ValueId scaled =
      of_updates(graph, found, OpKind::Mul, {graph.op(found.scatter).inputs[2], found.factor}, change);
  const ValueId negated = of_updates(graph, found, OpKind::Neg, {scaled}, change + "/negated");
  NewOp made = copy_of(graph.op(found.scatter));
  made.name = name;
  made.inputs = {found.parameter, graph.op(found.scatter).inputs[1], negated};
  made.results = {graph.type(old)};
  made.result_names = {graph.value(old).name};
  made.origins = graph.op(found.difference).origins;
  std::erase_if(made.attrs, [](const Attr& attr) { return attr.name == "onto_zeros"; });
  graph.rename(old, made.result_names[0] + "/whole");
  graph.replace_uses(old, graph.result(graph.add(std::move(made), found.difference)));
  for (const OpId id : {found.difference, found.multiple, found.scatter}) graph.erase(id);
}

int scatter_graph(Graph& graph) {
  int count = 0;
  for (const OpId id : graph.order()) {
    if (!graph.is_live(id) || graph.op(id).kind == OpKind::Fused) continue;  // a transform made it one kernel
    for (Graph& region : graph.edit(id).regions) count += scatter_graph(region);
    const std::optional<RowUpdate> found = find(graph, id);
    if (!found) continue;
    scatter(graph, *found);
    ++count;
  }
  return count;
}

}  // namespace

void scatter_updates(Module& module, const Env&) {
  if (const int count = scatter_graph(module.graph))
    module.remarks.push_back(
        format("scatter-updates: {} parameters are updated in the rows that are looked up", count));
}

}  // namespace weftc

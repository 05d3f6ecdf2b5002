// Computes a product the other way round where its transpose is wanted.
//
//   p = MatMul(Transpose(x), g), y = Transpose(p)    ->    y = MatMul(Transpose(g), x)
//
// The derivative by the weight of a linear layer, which stands transposed in its file, is made so: the kernel would
// write each row of the product down a column of the result. It writes whole rows of the turned one, of the same sums.
//
// It runs after the schedule's transforms, for which the nodes are where the model has them. Where neither operand
// is a transposition, the turned product reads one more than before, and is left alone.
#include <algorithm>
#include <iterator>
#include <numeric>

#include "ir/base/text.h"
#include "passes/fusion/one_step.h"
#include "passes/passes.h"

namespace weftc {

namespace {

/// A transposition of matrices: of the last two dimensions alone.
bool turns_matrices(const Op& op) {
  if (op.kind != OpKind::Transpose) return false;
  std::vector<int64_t> perm = op.ints("perm");
  if (perm.size() < 2) return false;
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return true;
}

/// A type with its last two dimensions exchanged, and the slices of them.
TensorType turned(TensorType type) {
  const int last = type.ndim() - 1;
  std::swap(type.shape[last], type.shape[last - 1]);
  for (int axis = 0; axis < type.layout.size(); ++axis) {
    AxisState state = type.layout[axis];
    if (!state.is(AxisState::Kind::S) || state.dim < last - 1) continue;
    state.dim = state.dim == last ? last - 1 : last;
    type.layout.set(axis, state);
  }
  return type;
}

/// True for a product that only the transposition `id` reads, in the same step, with a transposed operand.
bool is_turned_by(const Graph& graph, OpId id) {
  const Op& after = graph.op(id);
  if (!turns_matrices(after)) return false;
  const Op& product = graph.producer_op(after.inputs[0]);
  if (product.kind != OpKind::MatMul || graph.value(after.inputs[0]).uses.size() != 1) return false;
  if (!are_of_one_step(graph, {id, graph.producer(after.inputs[0])})) return false;
  const auto is_matrix = [&](ValueId v) { return graph.type(v).ndim() >= 2; };
  const auto is_turned = [&](ValueId v) { return turns_matrices(graph.producer_op(v)); };
  return std::ranges::all_of(product.inputs, is_matrix) && std::ranges::any_of(product.inputs, is_turned);
}

/// The operand with its last two dimensions exchanged.
ValueId turned_operand(Graph& graph, OpId product, ValueId operand) {
  const Op& maker = graph.producer_op(operand);
  if (turns_matrices(maker)) return maker.inputs[0];
  NewOp made = copy_of(graph.op(product));
  std::vector<int64_t> perm(graph.type(operand).ndim());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  made.kind = OpKind::Transpose;
  made.name += "/Transpose";
  made.inputs = {operand};
  made.attrs = {{"perm", std::move(perm)}};
  made.results = {turned(graph.type(operand))};
  return graph.result(graph.add(std::move(made), product));
}

/// Puts the turned product in place of the transposition, whose result's name it takes.
void turn(Graph& graph, OpId transposition) {
  const ValueId before = graph.op(transposition).inputs[0], after = graph.result(transposition);
  const OpId product = graph.producer(before);
  const std::vector<ValueId> operands = graph.op(product).inputs;
  NewOp made = copy_of(graph.op(product));
  made.inputs = {turned_operand(graph, product, operands[1]), turned_operand(graph, product, operands[0])};
  made.results = {graph.type(after)};
  made.result_names = {graph.value(after).name};
  made.origins.clear();
  std::ranges::set_union(graph.op(product).origins, graph.op(transposition).origins, std::back_inserter(made.origins));
  graph.rename(after, made.result_names[0] + "/late");
  graph.rename_op(product, made.name + "/unturned");
  graph.replace_uses(after, graph.result(graph.add(std::move(made), product)));
  graph.erase(transposition);
  graph.erase(product);
}

int turn_graph(Graph& graph) {
  int count = 0;
  for (const OpId id : graph.order()) {
    if (graph.op(id).kind == OpKind::Fused) continue;  // a transform made it one kernel
    for (Graph& region : graph.edit(id).regions) count += turn_graph(region);
    if (!is_turned_by(graph, id)) continue;
    turn(graph, id);
    ++count;
  }
  return count;
}

}  // namespace

void turn_products(Module& module, const Env&) {
  if (const int count = turn_graph(module.graph))
    module.remarks.push_back(format("turn-products: {} products are computed as their transposes", count));
}

}  // namespace weftc

// Divides rows where there are fewer elements: after a product instead of before it.
//
//   p = Div(e, s), y = MatMul(p, v)                               ->   u = MatMul(e, v), y = Div(u, s)
//   p = Div(e, s), w = Where(IsNaN(p), 0, p), y = MatMul(w, v)    ->   u = MatMul(e, v), y = Where(IsNaN(s), 0, Div(u,
//   s))
//
// e and s are those of a Softmax, and the product has fewer columns than e. Attention of 1024 tokens by heads of 64
// then divides 64 numbers a row instead of 1024, and Softmax ends with the loop that adds its exponentials. These are
// at most 1 and their sum is at least 1, so an undivided product overflows only where the divided one would (except for
// values near the largest float). Other quotients have no such bound.
//
// The second form is how exporters guard Softmax against rows in which everything is masked: all elements of such a row
// are NaN, and no others. For a masked row the model multiplies zeros by values, which gives NaN where a value is
// infinite; here the result is 0. Reshapes that join rows may precede the product.
//
// The pass runs after the schedule's transforms, which expect the nodes where the model has them. It skips numbers of
// 16 bits, because undivided sums could exceed their range. It skips targets on which a library computes products,
// where the later division would be a kernel of its own.
#include <algorithm>

#include "ir/base/text.h"
#include "passes/fusion/one_step.h"
#include "passes/passes.h"

namespace weftc {

namespace {

/// A product and the ops before it, from the division on.
struct LateDivision {
  OpId product, division;
  ValueId rows;                // the product's operand
  std::vector<OpId> reshapes;  // between the division and the product, in order
  OpId guard, is_nan;          // invalid: no Where
  ValueId zero;                // of the guard
};

bool is_kind(const Graph& graph, ValueId v, OpKind kind) { return v && graph.producer_op(v).kind == kind; }

const Extent& columns(const TensorType& type) { return type.shape.back(); }

/// A Reshape of fixed extents that keeps rows as they are.
bool keeps_rows(const Graph& graph, ValueId v) {
  if (!is_kind(graph, v, OpKind::Reshape)) return false;
  const TensorType &to = graph.type(v), &from = graph.type(graph.producer_op(v).inputs[0]);
  return !to.shape.empty() && !from.shape.empty() && is_static(to.shape) && is_static(from.shape) &&
         columns(to) == columns(from);
}

/// Elements that are divided by a number for each row.
bool divides_rows(const Graph& graph, ValueId v) {
  if (!is_kind(graph, v, OpKind::Div)) return false;
  const Op& op = graph.producer_op(v);
  const TensorType &e = graph.type(op.inputs[0]), &s = graph.type(op.inputs[1]);
  TensorType of_rows = e;
  if (e.shape.empty() || e != graph.type(v)) return false;
  of_rows.shape.back() = {1, {}};
  return s == of_rows;
}

/// e = Exp(x - ReduceMax(x)), s = ReduceSum(e).
bool is_softmax(const Graph& graph, const Op& division) {
  const ValueId e = division.inputs[0], s = division.inputs[1];
  if (!is_kind(graph, e, OpKind::Exp) || !is_kind(graph, s, OpKind::ReduceSum)) return false;
  if (graph.producer_op(s).inputs[0] != e) return false;
  const ValueId shifted = graph.producer_op(e).inputs[0];
  if (!is_kind(graph, shifted, OpKind::Sub)) return false;
  const Op& sub = graph.producer_op(shifted);
  if (!is_kind(graph, sub.inputs[1], OpKind::ReduceMax)) return false;
  return graph.type(sub.inputs[1]).shape == graph.type(s).shape &&
         graph.producer_op(sub.inputs[1]).inputs[0] == sub.inputs[0];
}

size_t readers(const Graph& graph, ValueId v) { return graph.value(v).uses.size(); }

/// The p of Where(IsNaN(p), 0, p), if nothing else reads the parts; else invalid.
ValueId guarded(const Module& module, const Graph& graph, ValueId v) {
  if (!is_kind(graph, v, OpKind::Where)) return {};
  const Op& where = graph.producer_op(v);
  const ValueId nan = where.inputs[0], zero = where.inputs[1], p = where.inputs[2];
  if (!is_kind(graph, nan, OpKind::IsNaN) || graph.producer_op(nan).inputs[0] != p || readers(graph, nan) != 1)
    return {};
  if (!is_kind(graph, zero, OpKind::Constant) || graph.type(zero).count() != 1 || readers(graph, p) != 2) return {};
  return module.constants.tensor(graph.producer_op(zero).constant("value")).at(0) == 0 ? p : ValueId{};
}

std::optional<LateDivision> find(const Module& module, const Graph& graph, OpId id) {
  const Op& product = graph.op(id);
  if (product.kind != OpKind::MatMul) return {};
  LateDivision found{
      .product = id, .division = {}, .rows = product.inputs[0], .reshapes = {}, .guard = {}, .is_nan = {}, .zero = {}};
  ValueId v = found.rows;
  for (; keeps_rows(graph, v) && readers(graph, v) == 1; v = graph.producer_op(v).inputs[0])
    found.reshapes.push_back(graph.producer(v));
  std::reverse(found.reshapes.begin(), found.reshapes.end());
  if (readers(graph, v) != 1) return {};
  if (const ValueId p = guarded(module, graph, v)) {
    found.guard = graph.producer(v);
    found.is_nan = graph.producer(graph.op(found.guard).inputs[0]);
    found.zero = graph.op(found.guard).inputs[1];
    v = p;
  }
  if (!divides_rows(graph, v) || !is_softmax(graph, graph.producer_op(v))) return {};
  found.division = graph.producer(v);
  return found;
}

bool is_slicing(const Layout& layout, int dim) {
  for (int axis = 0; axis < layout.size(); ++axis)
    if (layout[axis].is(AxisState::Kind::S) && layout[axis].dim == dim) return true;
  return false;
}

/// True if the product has its operand's rows, on every rank, and its rows have at most half as many elements.
bool is_worth_it(const Graph& graph, const LateDivision& found) {
  const TensorType &rows = graph.type(found.rows), &result = graph.type(graph.result(found.product));
  if (rows.dtype != result.dtype || (rows.dtype != DType::F32 && rows.dtype != DType::F64)) return false;
  if (rows.ndim() != result.ndim() || !std::equal(rows.shape.begin(), rows.shape.end() - 1, result.shape.begin()))
    return false;
  TensorType like = rows;
  like.shape.back() = columns(result);
  const bool is_local = like == result && !is_slicing(rows.layout, rows.ndim() - 1);
  return is_local && !rows.layout.has(AxisState::Kind::P) && 2 * columns(result).bound <= columns(rows).bound;
}

class Mover {
 public:
  Mover(Graph& graph, const LateDivision& found) : graph_(graph), found_(found) {}

  void run() {
    ValueId undivided = division().inputs[0], divisor = division().inputs[1];
    for (const OpId id : found_.reshapes) {
      TensorType type = graph_.type(graph_.result(id));
      undivided = copy(id, {undivided}, type);
      type.shape.back() = {1, {}};
      divisor = reshape(id, divisor, std::move(type));
    }
    graph_.set_input(found_.product, 0, undivided);
    const ValueId product = graph_.result(found_.product);
    const TensorType type = graph_.type(product);
    ValueId result = copy(found_.division, {product, divisor}, type);
    if (found_.guard) {
      TensorType condition = graph_.type(divisor);
      condition.dtype = DType::Bool;
      result = copy(found_.guard, {copy(found_.is_nan, {divisor}, condition), found_.zero, result}, type);
    }
    take_over(product, result);
    erase_old();
  }

 private:
  const Op& division() const { return graph_.op(found_.division); }

  /// Copies the op with other operands: a Reshape before the product, other ops after it. The copy takes the name of
  /// the old op, which is removed.
  ValueId copy(OpId id, std::vector<ValueId> operands, TensorType type) {
    const bool is_in_front = graph_.op(id).kind == OpKind::Reshape;
    NewOp made = copy_of(graph_.op(id));
    made.inputs = std::move(operands);
    made.results = {std::move(type)};
    made.result_names = {graph_.value(graph_.result(id)).name};
    graph_.rename_op(id, made.name + "/early");
    graph_.rename(graph_.result(id), made.result_names[0] + "/early");
    return graph_.result(graph_.add(std::move(made), is_in_front ? found_.product : next_));
  }

  ValueId reshape(OpId like, ValueId divisor, TensorType type) {
    NewOp made = copy_of(graph_.op(like));
    made.name += "/divisor";
    made.inputs = {divisor};
    made.attrs = {{"allowzero", int64_t{1}}, {"shape", type.dims()}};
    made.results = {std::move(type)};
    return graph_.result(graph_.add(std::move(made), found_.product));
  }

  /// Readers of the product read the new result, which has its name.
  void take_over(ValueId product, ValueId result) {
    const std::vector<Use> uses = graph_.value(product).uses;
    const std::string name = graph_.value(product).name;
    const OpId divided = graph_.producer(found_.guard ? graph_.producer_op(result).inputs[2] : result);
    graph_.replace_uses(product, result);
    graph_.set_input(divided, 0, product);
    graph_.rename(product, name + ".undivided");
    graph_.rename(result, name);
  }

  void erase_old() {
    for (auto id = found_.reshapes.rbegin(); id != found_.reshapes.rend(); ++id) graph_.erase(*id);
    if (found_.guard) graph_.erase(found_.guard), graph_.erase(found_.is_nan);
    graph_.erase(found_.division);
  }

  Graph& graph_;
  const LateDivision& found_;
  const OpId next_ = graph_.next(found_.product);
};

int divide_graph(const Module& module, Graph& graph) {
  int count = 0;
  for (const OpId id : graph.order()) {
    if (graph.op(id).kind == OpKind::Fused) continue;  // a transform made them one kernel
    for (Graph& region : graph.edit(id).regions) count += divide_graph(module, region);
    const std::optional<LateDivision> found = find(module, graph, id);
    if (!found || !is_worth_it(graph, *found) || !are_of_one_step(graph, {found->product, found->division})) continue;
    Mover(graph, *found).run();
    ++count;
  }
  return count;
}

}  // namespace

void divide_late(Module& module, const Env& env) {
  if (env.target.library_products) return;
  if (const int count = divide_graph(module, module.graph))
    module.remarks.push_back(format("divide-late: {} products are divided after their sums", count));
}

}  // namespace weftc

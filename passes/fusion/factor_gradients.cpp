// Multiplies a gradient once by a sum, where the sum of its multiples was computed.
//
//   y = Add(Mul(g, a), Mul(Mul(g, b), c))    ->    f = Add(a, Mul(b, c)), y = Mul(g, f)
//
// g comes from the loss; a, b and c are values of the forward pass. The derivative of an activation such as Gelu has
// this form. The factor f is computed next to the activation, from values that are in registers there. One value per
// element waits in memory for the backward pass, not one for each of a, b and c.
//
// A factor that elements of one stored value give by additions and multiplications alone is left to the backward pass:
// s * (1 - s) of a Sigmoid needs no memory of its own. The pass runs after the schedule's transforms, for which the
// nodes are where the model has them. Numbers of 16 bits are left alone: their sums are rounded once. So is the body of
// a loop, which keeps no values between kernels.
#include <algorithm>
#include <map>
#include <set>

#include "ir/base/contains.h"
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "passes/fusion/one_step.h"
#include "passes/passes.h"

namespace weftc {

namespace {

/// Multiples of a gradient and their sums: `ops` in order, of which the last one makes the result.
struct Multiples {
  ValueId gradient;
  std::vector<OpId> ops;
};

bool is_linear(OpKind kind) {
  return kind == OpKind::Mul || kind == OpKind::Div || kind == OpKind::Neg || kind == OpKind::Add ||
         kind == OpKind::Sub;
}

class Factoring {
 public:
  Factoring(const Module& module, Graph& graph) : module_(module), graph_(graph) {
    for (const OpId id : graph.order()) order_.emplace(id.index, order_.size());
  }

  int run() {
    int count = 0;
    for (const OpId id : graph_.order()) {
      if (!graph_.is_live(id)) continue;
      const ValueId v = graph_.op(id).outputs.size() == 1 ? graph_.op(id).outputs[0] : ValueId{};
      if (!v || is_of_forward(v)) continue;
      const std::optional<Multiples> found = multiples_of(v);
      if (!found || !is_worth_it(*found)) continue;
      write(*found);
      ++count;
    }
    return count;
  }

 private:
  /// True if the value does not depend on the loss: the backward pass may compute it, but only pointwise.
  bool is_of_forward(ValueId v) {
    if (const auto known = of_forward_.find(v); known != of_forward_.end()) return known->second;
    const Op& op = graph_.producer_op(v);
    const bool is_pointwise = category(op) == Category::Pointwise || category(op) == Category::Source;
    const bool result =
        !module_.is_backward(op) ||
        (is_pointwise && std::ranges::all_of(op.inputs, [&](ValueId input) { return !input || is_of_forward(input); }));
    return of_forward_[v] = result;
  }

  /// Values that are known as multiples of a gradient, with the number of their readers that are not among the ops.
  using Unread = std::map<ValueId, size_t>;

  /// An op that makes a multiple of the gradient from it, from known multiples and from values of the forward pass.
  bool is_multiple(const Op& op, ValueId gradient, const Unread& known) {
    if (!is_linear(op.kind) || !module_.is_backward(op) || graph_.type(op.outputs[0]) != graph_.type(gradient))
      return false;
    const auto is_known = [&](ValueId v) { return v == gradient || known.contains(v); };
    if (op.kind == OpKind::Mul && is_known(op.inputs[1])) return is_factor(op.inputs[0], gradient);
    if (op.kind == OpKind::Mul) return is_known(op.inputs[0]) && is_factor(op.inputs[1], gradient);
    if (op.kind == OpKind::Div) return known.contains(op.inputs[0]) && is_factor(op.inputs[1], gradient);
    return std::ranges::all_of(op.inputs, [&](ValueId v) { return known.contains(v); });
  }

  bool is_factor(ValueId v, ValueId gradient) {
    const TensorType &type = graph_.type(v), &wanted = graph_.type(gradient);
    const bool is_number = is_static(type.shape) && type.count() == 1 && type.layout.is_replicated();
    return (type == wanted || (is_number && type.ndim() <= wanted.ndim())) && is_of_forward(v);
  }

  /// The largest sum of multiples of `gradient` whose parts nothing else reads. One of more ops becomes several.
  std::optional<Multiples> multiples_of(ValueId gradient) {
    constexpr size_t kMostOps = 64;
    const TensorType& type = graph_.type(gradient);
    const bool is_wide = type.dtype == DType::F32 || type.dtype == DType::F64;
    if (!is_wide || type.layout.has(AxisState::Kind::P) || graph_.value(gradient).uses.size() < 2) return {};
    Multiples found{gradient, {}}, best;
    Unread unread;
    size_t open = 0;  // multiples with a reader that is not among the ops
    std::map<size_t, OpId> next;
    const auto add_readers = [&](ValueId v) {
      for (const Use& use : graph_.value(v).uses)
        if (use.op && order_.contains(use.op.index)) next.emplace(order_.at(use.op.index), use.op);
    };
    for (add_readers(gradient); !next.empty() && found.ops.size() < kMostOps;) {
      const OpId id = next.extract(next.begin()).mapped();
      if (!is_multiple(graph_.op(id), gradient, unread)) continue;
      if (!are_of_one_step(graph_, {id, found.ops.empty() ? id : found.ops[0]})) continue;
      found.ops.push_back(id);
      for (const ValueId v : graph_.op(id).inputs)
        if (const auto at = unread.find(v); at != unread.end() && --at->second == 0) --open;
      const ValueId made = graph_.result(id);
      const bool is_read = !graph_.value(made).uses.empty();
      unread.emplace(made, graph_.value(made).uses.size());
      open += is_read;
      add_readers(made);
      if (open == (is_read ? 1 : 0)) best = found;
    }
    return best.ops.size() > 1 ? std::optional(best) : std::nullopt;
  }

  /// True if the factor depends on at least two stored values: results of ops that are dear or not pointwise.
  bool is_worth_it(const Multiples& multiples) const {
    std::set<ValueId> stored, seen;
    std::vector<ValueId> open;
    for (const OpId id : multiples.ops)
      for (const ValueId v : graph_.op(id).inputs)
        if (v != multiples.gradient && !contains(multiples.ops, graph_.producer(v))) open.push_back(v);
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (graph_.type(v) != graph_.type(multiples.gradient) || !seen.insert(v).second) continue;
      const Op& op = graph_.producer_op(v);
      if (is_linear(op.kind) && op.kind != OpKind::Div)
        open.insert(open.end(), op.inputs.begin(), op.inputs.end());
      else
        stored.insert(v);
    }
    return stored.size() > 1;
  }

  /// Computes the factor step by step before the ops, and puts one multiple in place of the last one's result.
  void write(const Multiples& multiples) {
    std::map<ValueId, ValueId> factors;
    for (const OpId id : multiples.ops) factors[graph_.result(id)] = factor_of(multiples, id, factors);
    const OpId last = multiples.ops.back();
    const ValueId old = graph_.result(last);
    NewOp made = copy_of(graph_.op(last));
    made.kind = OpKind::Mul;
    made.inputs = {multiples.gradient, factors[old]};
    made.results = {graph_.type(old)};
    made.result_names = {graph_.value(old).name};
    graph_.rename_op(last, made.name + "/apart");
    graph_.rename(old, made.result_names[0] + "/apart");
    graph_.replace_uses(old, graph_.result(graph_.add(std::move(made), last)));
    for (auto id = multiples.ops.rbegin(); id != multiples.ops.rend(); ++id) graph_.erase(*id);
  }

  /// The number by which the op's result is a multiple of the gradient. An op of the gradient itself is a Mul.
  ValueId factor_of(const Multiples& multiples, OpId id, const std::map<ValueId, ValueId>& factors) {
    const Op& op = graph_.op(id);
    NewOp made = copy_of(op);
    for (const ValueId v : op.inputs) {
      if (v == multiples.gradient) continue;
      const auto at = factors.find(v);
      made.inputs.push_back(at == factors.end() ? v : at->second);
    }
    if (made.inputs.size() < op.inputs.size()) return made.inputs[0];
    made.name += "/factor";
    made.results = {type_of(made.inputs, graph_.type(multiples.gradient))};
    return graph_.result(graph_.add(std::move(made), id));
  }

  /// The type of an op's result: that of the gradient, or a number if all operands are numbers.
  const TensorType& type_of(const std::vector<ValueId>& operands, const TensorType& gradient) const {
    const TensorType* widest = &graph_.type(operands[0]);
    for (const ValueId v : operands)
      if (graph_.type(v) == gradient || graph_.type(v).ndim() > widest->ndim()) widest = &graph_.type(v);
    return *widest;
  }

  const Module& module_;
  Graph& graph_;
  std::map<uint32_t, size_t> order_;
  std::map<ValueId, bool> of_forward_;
};

}  // namespace

void factor_gradients(Module& module, const Env&) {
  if (const int count = Factoring(module, module.graph).run())
    module.remarks.push_back(format("factor-gradients: {} gradients are multiplied by one factor", count));
}

}  // namespace weftc

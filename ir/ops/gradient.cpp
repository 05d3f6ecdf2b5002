// Gradient of ai.onnx.preview.training: the partial derivatives of a result by reverse-mode differentiation. It is
// decomposed behind the ops that it is about, when all of them are primitives; each has a rule here.
//
//   %y = Mul(%a, %b), %da = Gradient(%a, %y) {xs = ["a"], y = "y"}   ->   %da = Mul(%g, %b),  %g being ones
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/ops/formula.h"

namespace weftc {

namespace {

/// One op on the way back, and the derivative of y by its result.
struct BackwardStep {
  Builder& build;
  const Op& op;
  Term g;

  Term in(size_t i) const { return {build, op.inputs[i]}; }
  Term out() const { return {build, op.outputs[0]}; }
};
/// The derivative by each operand, nothing for those by which there is none (integers, conditions).
using Derivatives = std::vector<std::optional<Term>>;
using Rule = Derivatives (*)(const BackwardStep& s);

/// The matrices' transposes.
Term turned(const Term& matrices) {
  std::vector<int64_t> order = range_of(0, static_cast<int64_t>(matrices.dims().size()));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return matrices.transpose(order);
}

Derivatives of_transpose(const BackwardStep& s) {
  const std::vector<int64_t>& perm = s.op.ints("perm");
  std::vector<int64_t> back(perm.size());
  for (size_t d = 0; d < perm.size(); ++d) back[static_cast<size_t>(perm[d])] = static_cast<int64_t>(d);
  return {s.g.transpose(back)};
}

/// With extent 1 where the reduction has taken dimensions away.
Term with_reduced(const BackwardStep& s, const Term& reduced) {
  Dims dims = s.in(0).dims();
  for (const int64_t axis : s.op.ints("axes")) dims[static_cast<size_t>(axis)] = 1;
  return reduced.reshape(dims);
}

/// Equal largest elements share.
Derivatives of_extreme(const BackwardStep& s) {
  const Term chosen = (s.in(0) == with_reduced(s, s.out())).cast(s.g.dtype());
  const Term shared = chosen / chosen.reduce(OpKind::ReduceSum, s.op.ints("axes"), true);
  return {shared * with_reduced(s, s.g)};
}

/// Each operand gets its rows.
Derivatives of_concat(const BackwardStep& s) {
  const int64_t axis = s.op.integer("axis");
  Derivatives parts;
  int64_t first = 0;
  for (size_t i = 0; i < s.op.inputs.size(); ++i) {
    const int64_t count = s.in(i).dims()[static_cast<size_t>(axis)];
    parts.push_back(s.g.slice(axis, first, first + count));
    first += count;
  }
  return parts;
}

/// What is left out has no part in the result.
Derivatives of_slice(const BackwardStep& s) {
  const Dims dims = s.in(0).dims();
  std::vector<int64_t> pads = s.op.ints("starts");
  for (size_t d = 0; d < dims.size(); ++d) pads.push_back(dims[d] - pads[d] - s.g.dims()[d]);
  return {Term(s.build, s.build.op(OpKind::Pad, {s.g.value()}, {{"pads", pads}}))};
}

/// By the base only.
Derivatives of_power(const BackwardStep& s) {
  const Term exponent = s.in(1).cast(s.g.dtype());
  return {s.g * exponent * s.in(0).apply(OpKind::Pow, exponent - 1)};
}

struct Row {
  OpKind kind;
  Rule rule;
};
const Row kRules[] = {
    {OpKind::Abs, [](const BackwardStep& s) -> Derivatives { return {s.g * s.in(0).apply(OpKind::Sign)}; }},
    {OpKind::Add,
     [](const BackwardStep& s) -> Derivatives {
       return {s.g, s.g};
     }},
    {OpKind::Cast, [](const BackwardStep& s) -> Derivatives { return {s.g.cast(s.in(0).dtype())}; }},
    {OpKind::Concat, of_concat},
    {OpKind::Cos,
     [](const BackwardStep& s) -> Derivatives { return {(s.g * s.in(0).apply(OpKind::Sin)).apply(OpKind::Neg)}; }},
    {OpKind::Div,
     [](const BackwardStep& s) -> Derivatives {
       return {s.g / s.in(1), (s.g * s.out() / s.in(1)).apply(OpKind::Neg)};
     }},
    {OpKind::Erf,
     [](const BackwardStep& s) -> Derivatives {
       return {s.g * 1.1283791670955126 * (s.in(0) * s.in(0)).apply(OpKind::Neg).apply(OpKind::Exp)};
     }},
    {OpKind::Exp, [](const BackwardStep& s) -> Derivatives { return {s.g * s.out()}; }},
    {OpKind::Expand, [](const BackwardStep& s) -> Derivatives { return {s.g}; }},
    {OpKind::Identity, [](const BackwardStep& s) -> Derivatives { return {s.g}; }},
    {OpKind::Log, [](const BackwardStep& s) -> Derivatives { return {s.g / s.in(0)}; }},
    {OpKind::MatMul,
     [](const BackwardStep& s) -> Derivatives {
       return {product(s.g, turned(s.in(1))), product(turned(s.in(0)), s.g)};
     }},
    {OpKind::Max,
     [](const BackwardStep& s) -> Derivatives {
       const Term first = s.in(0) >= s.in(1);
       return {first.choose(s.g, s.g.scalar(0)), first.choose(s.g.scalar(0), s.g)};
     }},
    {OpKind::Min,
     [](const BackwardStep& s) -> Derivatives {
       const Term first = s.in(0) <= s.in(1);
       return {first.choose(s.g, s.g.scalar(0)), first.choose(s.g.scalar(0), s.g)};
     }},
    {OpKind::Mul,
     [](const BackwardStep& s) -> Derivatives {
       return {s.g * s.in(1), s.g * s.in(0)};
     }},
    {OpKind::Neg, [](const BackwardStep& s) -> Derivatives { return {s.g.apply(OpKind::Neg)}; }},
    {OpKind::Pow, of_power},
    {OpKind::Reciprocal,
     [](const BackwardStep& s) -> Derivatives { return {(s.g * s.out() * s.out()).apply(OpKind::Neg)}; }},
    {OpKind::ReduceMax, of_extreme},
    {OpKind::ReduceMin, of_extreme},
    {OpKind::ReduceSum,
     [](const BackwardStep& s) -> Derivatives { return {with_reduced(s, s.g).expand(s.in(0).dims())}; }},
    {OpKind::Relu, [](const BackwardStep& s) -> Derivatives { return {(s.in(0) > 0).choose(s.g, s.g.scalar(0))}; }},
    {OpKind::Reshape, [](const BackwardStep& s) -> Derivatives { return {s.g.reshape(s.in(0).dims())}; }},
    {OpKind::Sigmoid, [](const BackwardStep& s) -> Derivatives { return {s.g * s.out() * (1 - s.out())}; }},
    {OpKind::Sin, [](const BackwardStep& s) -> Derivatives { return {s.g * s.in(0).apply(OpKind::Cos)}; }},
    {OpKind::Slice, of_slice},
    {OpKind::Sqrt, [](const BackwardStep& s) -> Derivatives { return {s.g / (s.out() * 2)}; }},
    {OpKind::Sub,
     [](const BackwardStep& s) -> Derivatives {
       return {s.g, s.g.apply(OpKind::Neg)};
     }},
    {OpKind::Tanh, [](const BackwardStep& s) -> Derivatives { return {s.g * (1 - s.out() * s.out())}; }},
    {OpKind::Transpose, of_transpose},
    {OpKind::Where,
     [](const BackwardStep& s) -> Derivatives {
       return {{}, s.in(0).choose(s.g, s.g.scalar(0)), s.in(0).choose(s.g.scalar(0), s.g)};
     }},
};

Rule rule_of(OpKind kind) {
  const auto* row = std::ranges::find(kRules, kind, &Row::kind);
  return row == std::end(kRules) ? nullptr : row->rule;
}

/// Summed over the dimensions along which an operand of these dims was broadcast.
Term summed_to(const Term& g, const Dims& dims) {
  const size_t more = g.dims().size() - dims.size();
  std::vector<int64_t> axes;
  for (size_t d = 0; d < g.dims().size(); ++d)
    if (d < more || (dims[d - more] == 1 && g.dims()[d] != 1)) axes.push_back(static_cast<int64_t>(d));
  return axes.empty() ? g : g.reduce(OpKind::ReduceSum, axes, true).reshape(dims);
}

/// Goes through the ops from the result back to the values by which it is differentiated.
class Backward {
 public:
  Backward(Builder& build, const OpView& op) : build_(build), op_(op) {
    const size_t count = op.op().texts("xs").size();
    xs_.assign(op.op().inputs.begin(), op.op().inputs.begin() + static_cast<long>(count));
  }
  std::vector<ValueId> run();

 private:
  bool back_through(OpId id);
  void add(ValueId value, Term g);

  Builder& build_;
  const OpView& op_;
  std::vector<ValueId> xs_;
  std::unordered_set<ValueId> on_way_;            // what depends on the values
  std::unordered_map<ValueId, ValueId> derived_;  // the derivative by each value, as far as it is summed up
};

void Backward::add(ValueId value, Term g) {
  const Term whole = summed_to(g, build_.dims(value));
  const auto [at, is_first] = derived_.emplace(value, whole.value());
  if (!is_first) at->second = (Term(build_, at->second) + whole).value();
}

/// Distributes the derivative by an op's result over its operands. False after reporting an op without a rule.
bool Backward::back_through(OpId id) {
  const Op op = build_.graph().op(id);
  const Rule rule = op.outputs.size() == 1 ? rule_of(op.kind) : nullptr;
  const bool is_exponent = op.kind == OpKind::Pow && on_way_.contains(op.inputs[1]);
  const bool skips =
      op.kind == OpKind::Slice && std::ranges::any_of(op.ints("steps"), [](int64_t s) { return s != 1; });
  if (!rule || is_exponent || skips)
    return op_.fail("gradient-unsupported", "there is no rule for the gradient of {} ('{}')", op_def(op).name, op.name);
  const Derivatives derivatives = rule({build_, op, Term(build_, derived_.at(op.outputs[0]))});
  for (size_t i = 0; i < derivatives.size(); ++i)
    if (derivatives[i] && on_way_.contains(op.inputs[i])) add(op.inputs[i], *derivatives[i]);
  return true;
}

std::vector<ValueId> Backward::run() {
  const Graph& graph = build_.graph();
  on_way_.insert(xs_.begin(), xs_.end());
  const std::unordered_set<ValueId> ends = on_way_;
  const std::vector<OpId> order = graph.order();
  for (const OpId id : order) {
    const Op& op = graph.op(id);
    if (std::ranges::none_of(op.inputs, [&](ValueId v) { return v && on_way_.contains(v); })) continue;
    for (const ValueId output : op.outputs)
      if (is_float(graph.type(output).dtype)) on_way_.insert(output);
  }
  const ValueId y = op_.op().inputs.back();
  derived_.emplace(y, build_.op(OpKind::Expand, {build_.scalar(y, 1)}, {{"shape", build_.dims(y)}}));
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const std::vector<ValueId> outputs = graph.op(*id).outputs;
    const auto is_passed = [&](ValueId v) { return derived_.contains(v) && on_way_.contains(v) && !ends.contains(v); };
    if (std::ranges::any_of(outputs, is_passed) && !back_through(*id)) return {};
  }
  std::vector<ValueId> results;
  for (const ValueId x : xs_) {
    const auto found = derived_.find(x);
    results.push_back(found != derived_.end()
                          ? found->second
                          : build_.op(OpKind::Expand, {build_.scalar(x, 0)}, {{"shape", build_.dims(x)}}));
  }
  return results;
}

bool infer_gradient(const OpView& op, std::vector<TensorType>& results) {
  const size_t count = op.op().texts("xs").size();
  if (count == 0 || count >= op.op().inputs.size())
    return op.fail("gradient-names", "'xs' has {} names for {} operands", count, op.op().inputs.size() - 1);
  if (op.op().outputs.size() > count)
    return op.fail("gradient-names", "'xs' has {} names for {} outputs", count, op.op().outputs.size());
  const int y = op.inputs() - 1;
  for (int i = 0; i <= y; ++i) {
    if (!op.has(i)) return op.fail("gradient-names", "name {} of 'xs' and 'zs' is empty", i);
    if (!is_fixed(op, i) || !is_real_operand(op, i)) return false;
  }
  for (size_t i = 0; i < count; ++i) {
    const TensorType& x = op.type(static_cast<int>(i));
    results.push_back({x.dtype, x.shape, {}});
  }
  return true;
}

}  // namespace

/// Inputs: the values of `xs`, then `zs`, then y, which the reader puts there. Results: the derivative of y by each x.
const OpDef kGradient{
    .kind = OpKind::Gradient,
    .name = "Gradient",
    .onnx = {"Gradient", 1, "ai.onnx.preview.training"},
    .attrs = {{"xs", AttrType::Texts, {}, true}, {"y", AttrType::Text, {}, true}, {"zs", AttrType::Texts}},
    .inputs = {2, -1},
    .outputs = {1, -1},
    .infer = infer_gradient,
    .decompose = [](Builder& build, const OpView& op) { return Backward(build, op).run(); }};

}  // namespace weftc

// Gradient of ai.onnx.preview.training: the partial derivatives of a result by reverse-mode differentiation. It is
// decomposed behind the ops that it is about, when all of them are primitives, by the rules in their records.
//
//   %y = Mul(%a, %b), %da = Gradient(%a, %y) {xs = ["a"], y = "y"}   ->   %da = Mul(%g, %b),  %g being ones
#include "ir/ops/gradient.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace weftc {

namespace {

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
  const GradientFn rule = op.outputs.size() == 1 ? op_def(op).gradient : nullptr;
  const bool skips =
      op.kind == OpKind::Slice && std::ranges::any_of(op.ints("steps"), [](int64_t s) { return s != 1; });
  if (!rule || skips)
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

Derivatives no_gradient(const BackwardStep&) { return {}; }

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

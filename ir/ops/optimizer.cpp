// Adam, Adagrad and Momentum of ai.onnx.preview.training (version 1): one step for any number of tensors. The operands
// are the learning rate, the number of steps so far, then all tensors, all gradients, and all of each kind of state;
// the results are the new tensors, then the new states.
#include "ir/ops/formula.h"

namespace weftc {

namespace {

/// One tensor of the step: itself, its gradient with the norm's share, and its states.
struct OptimizedTensor {
  const Op& op;
  Term rate, count;  // learning rate; number of steps, in the tensor's type
  Term x, gradient;
  std::vector<Term> states;

  double attr(const char* name) const { return real_of(op, name); }
};

/// The number of tensors, from the operands after the first two; 0 after reporting.
int64_t tensors_of(const OpView& op, int64_t groups) {
  const int64_t given = op.inputs() - 2, count = given / groups;
  if (count < 1 || count * groups != given || static_cast<int64_t>(op.op().outputs.size()) != count * (groups - 1))
    return op.fail("optimizer-operands",
                   "{} operands and {} results do not fit: each tensor has {} operands and {} results", given + 2,
                   op.op().outputs.size(), groups, groups - 1),
           0;
  return count;
}

/// New tensors and states have the types of the old ones. Each state is as large as its tensor.
template <int kGroups>
bool infer_optimizer(const OpView& op, std::vector<TensorType>& results) {
  const int64_t count = tensors_of(op, kGroups);
  if (!count) return false;
  for (int64_t i = 2; i < op.inputs(); ++i) {
    const int64_t of = 2 + (i - 2) % count;
    if (op.type(static_cast<int>(i)).shape != op.type(static_cast<int>(of)).shape ||
        op.type(static_cast<int>(i)).dtype != op.type(static_cast<int>(of)).dtype)
      return op.fail("optimizer-dims", "operand {} has shape {}, but its tensor has {}", i,
                     dims_text(op.dims(static_cast<int>(i))), dims_text(op.dims(static_cast<int>(of))));
    if (!is_real_operand(op, static_cast<int>(i))) return false;
    const bool is_gradient = (i - 2) / count == 1;
    if (!is_gradient) results.push_back({op.type(static_cast<int>(i)).dtype, op.type(static_cast<int>(i)).shape, {}});
  }
  return true;
}

/// `step` computes the new tensor and the new states.
template <int kGroups, std::vector<Term> (*kStep)(const OptimizedTensor&)>
std::vector<ValueId> decompose_optimizer(Builder& build, const OpView& view) {
  const Op& op = view.op();
  const auto count = static_cast<int64_t>(op.inputs.size() - 2) / kGroups;
  std::vector<ValueId> results(count * (kGroups - 1));
  for (int64_t i = 0; i < count; ++i) {
    const auto operand = [&](int64_t group) { return Term(build, op.inputs[2 + group * count + i]); };
    const Term x = operand(0);
    OptimizedTensor step{
        op, Term(build, op.inputs[0]).cast(x.dtype()),        Term(build, op.inputs[1]).cast(x.dtype()),
        x,  x * real_of(op, "norm_coefficient") + operand(1), {}};
    for (int g = 2; g < kGroups; ++g) step.states.push_back(operand(g));
    const std::vector<Term> made = kStep(step);
    for (int64_t r = 0; r < kGroups - 1; ++r) results[r * count + i] = made[r].value();
  }
  return results;
}

/// v and h are running means of the gradient and of its square; the rate corrects for their start at 0.
std::vector<Term> adam(const OptimizedTensor& s) {
  const double alpha = s.attr("alpha"), beta = s.attr("beta");
  const Term v = s.states[0] * alpha + s.gradient * (1 - alpha);
  const Term h = s.states[1] * beta + s.gradient * s.gradient * (1 - beta);
  const auto left = [&](double base) { return 1 - s.count.scalar(base).apply(OpKind::Pow, s.count); };
  const Term corrected = s.rate * left(beta).apply(OpKind::Sqrt) / left(alpha);
  const Term rate = (s.count > 0).choose(corrected, s.rate);
  const Term x = s.x - rate * (v / (h.apply(OpKind::Sqrt) + s.attr("epsilon")));
  return {x * (1 - s.attr("norm_coefficient_post")), v, h};
}

/// h is the sum of the gradient's squares.
std::vector<Term> adagrad(const OptimizedTensor& s) {
  const Term rate = s.rate / (s.count * s.attr("decay_factor") + 1);
  const Term h = s.states[0] + s.gradient * s.gradient;
  return {s.x - rate * s.gradient / (h.apply(OpKind::Sqrt) + s.attr("epsilon")), h};
}

/// The first step uses the whole gradient.
std::vector<Term> momentum(const OptimizedTensor& s) {
  const double alpha = s.attr("alpha");
  const Term share = (s.count > 0).choose(s.count.scalar(s.attr("beta")), s.count.scalar(1));
  const Term v = s.states[0] * alpha + share * s.gradient;
  const bool is_nesterov = text_of(s.op, "mode") == "nesterov";
  return {s.x - s.rate * (is_nesterov ? s.gradient + v * alpha : v), v};
}

OpDef optimizer(OpKind kind, const char* name, InferFn infer, DecomposeFn decompose, std::vector<AttrSpec> attrs) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name, 1, "ai.onnx.preview.training"};
  def.attrs = std::move(attrs);
  def.inputs = {3, -1};
  def.outputs = {1, -1};
  def.infer = infer;
  def.decompose = decompose;
  return def;
}

}  // namespace

const OpDef kAdam = optimizer(OpKind::Adam, "Adam", infer_optimizer<4>, decompose_optimizer<4, adam>,
                              {{"alpha", AttrType::Real, 0.9},
                               {"beta", AttrType::Real, 0.999},
                               {"epsilon", AttrType::Real, 0.0},
                               {"norm_coefficient", AttrType::Real, 0.0},
                               {"norm_coefficient_post", AttrType::Real, 0.0}});
const OpDef kAdagrad = optimizer(OpKind::Adagrad, "Adagrad", infer_optimizer<3>, decompose_optimizer<3, adagrad>,
                                 {{"decay_factor", AttrType::Real, 0.0},
                                  {"epsilon", AttrType::Real, 0.0},
                                  {"norm_coefficient", AttrType::Real, 0.0}});
const OpDef kMomentum = optimizer(OpKind::Momentum, "Momentum", infer_optimizer<3>, decompose_optimizer<3, momentum>,
                                  {{"alpha", AttrType::Real, {}, true},
                                   {"beta", AttrType::Real, {}, true},
                                   choice("mode", {}, "standard nesterov"),
                                   {"norm_coefficient", AttrType::Real, {}, true}});

}  // namespace weftc

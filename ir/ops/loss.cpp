// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss (ONNX 13): scores [N, C, further dims] against class numbers of
// shape [N, further dims]. GatherElements picks the score of each target, so classes may be sliced: the pick is then a
// masked look-up and a sum over ranks.
//
//   SoftmaxCrossEntropyLoss(x, t)  ->  l = LogSoftmax(x);  -mean(GatherElements(l, t))
#include "ir/ops/gradient.h"

namespace weftc {

namespace {

/// A scalar, or with reduction "none" the targets' shape; result 1 (SoftmaxCrossEntropyLoss) is the
/// log-probabilities.
bool infer_loss(const OpView& op, std::vector<TensorType>& results) {
  const std::string& reduction = text_of(op.op(), "reduction");
  if (!is_real_operand(op, 0) || !has_ndim(op, 0, 2) || !is_fixed(op, 0) || !is_fixed(op, 1)) return false;
  Dims expected = op.dims(0);
  const int64_t classes = expected[1];
  expected.erase(expected.begin() + 1);
  if (op.dims(1) != expected || !is_integer(op.type(1).dtype))
    return op.fail("loss-target", "class numbers of shape {} do not fit scores of shape {}", dims_text(op.dims(1)),
                   dims_text(op.dims(0)));
  if (op.has(2) && (op.type(2).dims() != Dims{classes} || op.type(2).dtype != op.type(0).dtype))
    return op.fail("loss-weights", "weights of type {}[{}] do not fit {} scores for {} classes",
                   dtype_name(op.type(2).dtype), dims_text(op.dims(2)), dtype_name(op.type(0).dtype), classes);
  results = {{op.type(0).dtype, reduction == "none" ? shape_of(expected) : Shape{}, {}},
             {op.type(0).dtype, op.type(0).shape, {}}};
  return true;
}

/// The loss of log-probabilities. An ignored target gets class 0, which exists, and weight 0. The mean divides by the
/// sum of the weights, as in ONNX.
ValueId loss_of(Builder& build, const OpView& op, ValueId log_probabilities) {
  const Op& loss = op.op();
  const Dims dims = op.dims(1);
  Dims column = dims;
  column.insert(column.begin() + 1, 1);
  ValueId target = loss.inputs[1], valid;
  if (loss.has("ignore_index")) {
    const ValueId ignored =
        build.op(OpKind::Equal, {target, build.scalar(target, static_cast<double>(loss.integer("ignore_index")))});
    valid = build.op(OpKind::Not, {ignored});
    target = build.op(OpKind::Where, {valid, target, build.scalar(target, 0)});
  }
  // Classes do not count from the end: a number below 0 is refused.
  const ValueId picked = build.op(OpKind::GatherElements, {log_probabilities, build.reshape(target, column)},
                                  {{"axis", int64_t{1}}, {"from_front", int64_t{1}}});
  ValueId each = build.op(OpKind::Neg, {build.reshape(picked, dims)}), weights;
  if (op.has(2))
    weights = build.op(OpKind::Gather, {loss.inputs[2], target}, {{"axis", int64_t{0}}, {"from_front", int64_t{1}}});
  if (valid)
    weights = build.op(OpKind::Where, {valid, weights ? weights : build.scalar(each, 1), build.scalar(each, 0)});
  if (weights) each = multiply(build, each, weights);
  // The score picked for an ignored target may be infinite.
  if (valid) each = build.op(OpKind::Where, {valid, each, build.scalar(each, 0)});
  const std::string& reduction = text_of(loss, "reduction");
  const std::vector<int64_t> all = range_of(0, static_cast<int64_t>(dims.size()));
  if (reduction == "none") return each;
  if (reduction == "mean" && !weights) return mean(build, each, all, false);
  if (reduction == "sum") return build.reduce(OpKind::ReduceSum, each, all, false);
  const DType dtype = build.type(each).dtype;
  const auto sum = [&](ValueId of) { return build.reduce(OpKind::ReduceSum, build.cast(of, wide(dtype)), all, false); };
  return build.cast(divide(build, sum(each), sum(weights)), dtype);
}

std::vector<ValueId> decompose_likelihood(Builder& build, const OpView& op) {
  return {loss_of(build, op, op.op().inputs[0])};
}

std::vector<ValueId> decompose_cross_entropy(Builder& build, const OpView& op) {
  const ValueId log_probabilities = build.op(OpKind::LogSoftmax, {op.op().inputs[0]}, {{"axis", int64_t{1}}});
  return {loss_of(build, op, log_probabilities), log_probabilities};
}

/// The factor of a target's negative log-probability in the loss, times the loss's derivative g. `valid`: the targets
/// that count.
Term share_of_loss(const BackwardStep& s, const Term& target, const std::optional<Term>& valid) {
  const std::string& reduction = text_of(s.op, "reduction");
  std::optional<Term> weights;
  if (s.has(2)) weights = pick(s.build, s.in(2), target, 0);
  if (valid) weights = valid->choose(weights ? *weights : s.g.scalar(1), s.zero());
  if (reduction != "mean") return weights ? *weights * s.g : s.g;
  const Dims dims = target.dims();
  if (!weights) return s.g * (1.0 / static_cast<double>(element_count(dims)));
  return *weights * (s.g / weights->reduce(OpKind::ReduceSum, range_of(0, static_cast<int64_t>(dims.size())), false));
}

/// Softmax, less 1 at the target, for each target that is not ignored. The Softmax is computed from the
/// log-probabilities, which are result 1.
Derivatives gradient_of_cross_entropy(const BackwardStep& s) {
  const Dims scores = s.in(0).dims(), dims = s.in(1).dims();
  const int ndim = static_cast<int>(scores.size());
  Dims column = dims;
  column.insert(column.begin() + 1, 1);
  Term target = s.in(1);
  std::optional<Term> valid;
  if (s.op.has("ignore_index")) {
    valid = (target == static_cast<double>(s.op.integer("ignore_index"))).apply(OpKind::Not);
    target = valid->choose(target, target.scalar(0));
  }
  const Term share = share_of_loss(s, target, valid).expand(dims).reshape(column);
  const Term at_target = positions(s.build, target.dtype(), scores[1], 1, ndim) == target.reshape(column);
  const Term probability = s.out(1).apply(OpKind::Exp);
  const Term derivative = at_target.choose(probability - 1, probability) * share;
  return {valid ? valid->reshape(column).choose(derivative, s.zero()) : derivative};
}

/// The two records differ in the ops before the pick, and in the second result.
OpDef loss(OpKind kind, const char* name, int outputs, DecomposeFn decompose) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name, 12};
  def.attrs = {{"ignore_index", AttrType::Int}, choice("reduction", "mean", "none mean sum")};
  def.inputs = {2, 3};
  def.outputs = {1, outputs};
  def.infer = infer_loss;
  def.decompose = decompose;
  return def;
}

}  // namespace

const OpDef kNegativeLogLikelihoodLoss =
    loss(OpKind::NegativeLogLikelihoodLoss, "NegativeLogLikelihoodLoss", 1, decompose_likelihood);

static OpDef cross_entropy() {
  OpDef def = loss(OpKind::SoftmaxCrossEntropyLoss, "SoftmaxCrossEntropyLoss", 2, decompose_cross_entropy);
  def.gradient = gradient_of_cross_entropy;
  def.kept_results = 2;
  return def;
}
const OpDef kSoftmaxCrossEntropyLoss = cross_entropy();

}  // namespace weftc

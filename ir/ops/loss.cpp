// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss (ONNX 13): scores [N, C, further dims] against class
// numbers of shape [N, further dims]. The score of each target is picked by GatherElements, hence classes may
// be sliced: the pick is then a masked look-up and a sum over ranks.
//
//   SoftmaxCrossEntropyLoss(x, t)  ->  l = LogSoftmax(x);  -mean(GatherElements(l, t))
#include "ir/ops/composite.h"

namespace weftc {

namespace {

/// A scalar, or with reduction "none" the targets' shape; result 1 (SoftmaxCrossEntropyLoss) is the
/// log-probabilities.
bool infer_loss(const OpView& op, std::vector<TensorType>& results) {
  const std::string& reduction = text_of(op.op(), "reduction");
  if (reduction != "none" && reduction != "mean" && reduction != "sum")
    return op.fail("loss-reduction", "'reduction' is '{}', expected none, mean or sum", printable(reduction));
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

/// The loss of log-probabilities. An ignored target gets class 0, which exists, and the weight 0. The mean
/// divides by the sum of the weights, as ONNX has it.
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
  const ValueId picked =
      build.op(OpKind::GatherElements, {log_probabilities, build.reshape(target, column)}, {{"axis", int64_t{1}}});
  ValueId each = build.op(OpKind::Neg, {build.reshape(picked, dims)}), weights;
  if (op.has(2)) weights = build.op(OpKind::Gather, {loss.inputs[2], target}, {{"axis", int64_t{0}}});
  if (valid)
    weights = build.op(OpKind::Where, {valid, weights ? weights : build.scalar(each, 1), build.scalar(each, 0)});
  if (weights) each = multiply(build, each, weights);
  const std::string& reduction = text_of(loss, "reduction");
  const std::vector<int64_t> all = range_of(0, static_cast<int64_t>(dims.size()));
  if (reduction == "none") return each;
  if (reduction == "mean" && !weights) return mean(build, each, all, false);
  const ValueId sum = build.reduce(OpKind::ReduceSum, each, all, false);
  return reduction == "sum" ? sum : divide(build, sum, build.reduce(OpKind::ReduceSum, weights, all, false));
}

std::vector<ValueId> decompose_likelihood(Builder& build, const OpView& op) {
  return {loss_of(build, op, op.op().inputs[0])};
}

std::vector<ValueId> decompose_cross_entropy(Builder& build, const OpView& op) {
  const ValueId log_probabilities = build.op(OpKind::LogSoftmax, {op.op().inputs[0]}, {{"axis", int64_t{1}}});
  return {loss_of(build, op, log_probabilities), log_probabilities};
}

/// The two records differ by what stands in front of the pick, and by the second result.
OpDef loss(OpKind kind, const char* name, int outputs, DecomposeFn decompose) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name, 12};
  def.attrs = {{"ignore_index", AttrType::Int}, {"reduction", AttrType::Text, "mean"}};
  def.inputs = {2, 3};
  def.outputs = {1, outputs};
  def.infer = infer_loss;
  def.decompose = decompose;
  return def;
}

}  // namespace

const OpDef kNegativeLogLikelihoodLoss =
    loss(OpKind::NegativeLogLikelihoodLoss, "NegativeLogLikelihoodLoss", 1, decompose_likelihood);
const OpDef kSoftmaxCrossEntropyLoss =
    loss(OpKind::SoftmaxCrossEntropyLoss, "SoftmaxCrossEntropyLoss", 2, decompose_cross_entropy);

}  // namespace weftc

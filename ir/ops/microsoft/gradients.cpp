// Derivatives as nodes, as ONNX Runtime writes them into its training graphs. Each applies the gradient rule of the
// differentiated op (ir/ops/gradient.h), which is reconstructed from the node's operands:
//
//   SoftmaxGrad_13(g, y)  ->  y * (g - ReduceSum(g * y)), the rule of a Softmax whose result is y
#include <array>
#include <cmath>

#include "ir/ops/gradient.h"

namespace weftc {

namespace {

constexpr int kNone = -1;

/// The op whose gradient a node computes. Operand 0 of the node is the derivative by its first result. The arrays give
/// the node's operands that are its operands and results, if its rule reads them.
struct Through {
  OpKind kind;
  std::array<int, 3> inputs, outputs;
  /// The results of the node are derivatives by the op's operands in this order; each has the type of this operand.
  std::array<int, 3> like;
  bool is_flat = false;  // a Softmax before opset 13
};

constexpr Through kThroughRelu{OpKind::Relu, {1, kNone, kNone}, {1, kNone, kNone}, {1, kNone, kNone}};
constexpr Through kThroughSoftmax{OpKind::Softmax, {1, kNone, kNone}, {1, kNone, kNone}, {1, kNone, kNone}};
constexpr Through kThroughLogSoftmax{OpKind::LogSoftmax, {1, kNone, kNone}, {1, kNone, kNone}, {1, kNone, kNone}};
constexpr Through kThroughFlatSoftmax{OpKind::Softmax, {1, kNone, kNone}, {1, kNone, kNone}, {1, kNone, kNone}, true};
constexpr Through kThroughFlatLogSoftmax{
    OpKind::LogSoftmax, {1, kNone, kNone}, {1, kNone, kNone}, {1, kNone, kNone}, true};
/// The scores are absent: log-probabilities replace them, because the rule reads only their shape.
constexpr Through kThroughCrossEntropy{
    OpKind::SoftmaxCrossEntropyLoss, {1, 2, 3}, {kNone, 1, kNone}, {1, kNone, kNone}};
/// The bias is not an operand; it has the dimensions of the scale.
constexpr Through kThroughLayerNormalization{OpKind::LayerNormalization, {1, 2, kNone}, {kNone, 3, 4}, {1, 2, 2}};

ValueId operand(const Op& node, int at) {
  return at == kNone || at >= static_cast<int>(node.inputs.size()) ? ValueId{} : node.inputs[static_cast<size_t>(at)];
}

Op op_of(const Op& node, const Through& through) {
  Op op = node;
  op.kind = through.kind;
  op.inputs.clear();
  op.outputs.clear();
  for (const int at : through.inputs) op.inputs.push_back(operand(node, at));
  for (const int at : through.outputs) op.outputs.push_back(operand(node, at));
  while (!op.inputs.back()) op.inputs.pop_back();
  if (through.is_flat) op.set("flatten", int64_t{1});
  return op;
}

bool is_like(const OpView& node, int at, const TensorType& wanted) {
  if (node.type(at).dtype == wanted.dtype && node.dims(at) == wanted.dims()) return true;
  return node.fail("derivative-operand", "operand {} is {}[{}], but what it goes back through has {}[{}] there", at,
                   dtype_name(node.type(at).dtype), dims_text(node.dims(at)), dtype_name(wanted.dtype),
                   dims_text(wanted.dims()));
}

/// The op must be valid for its own record, with the results that the node has.
template <const Through& kThrough>
bool infer_back(const OpView& node, std::vector<TensorType>& results) {
  const Op op = op_of(node.op(), kThrough);
  std::vector<TensorType> made;
  if (!op_def(op).infer(node.with(op), made) || !is_like(node, 0, made[0])) return false;
  for (size_t i = 0; i < kThrough.outputs.size(); ++i)
    if (kThrough.outputs[i] != kNone && !is_like(node, kThrough.outputs[i], made[i])) return false;
  for (const int at : kThrough.like)
    if (at != kNone) results.push_back({node.type(at).dtype, node.type(at).shape, {}});
  return true;
}

/// Sums over the dimensions along which the rule's operand was broadcast.
Term summed_to(const Term& derivative, const Shape& shape) {
  const Shape whole = derivative.shape();
  const size_t more = whole.size() - shape.size();
  std::vector<int64_t> axes = range_of(0, static_cast<int64_t>(more));
  for (size_t d = 0; d < shape.size(); ++d)
    if (is_one(shape[d]) && !is_one(whole[more + d])) axes.push_back(static_cast<int64_t>(more + d));
  return axes.empty() ? derivative : derivative.reduce(OpKind::ReduceSum, axes, true).reshape_to(shape);
}

template <const Through& kThrough>
std::vector<ValueId> decompose_back(Builder& build, const OpView& node) {
  const Op op = op_of(node.op(), kThrough);
  const OpView view = node.with(op);
  const Derivatives derivatives = op_def(op).gradient({build, view, Term(build, node.op().inputs[0])});
  std::vector<ValueId> results;
  for (size_t i = 0; i < node.op().outputs.size(); ++i)
    results.push_back(summed_to(*derivatives[i], node.type(kThrough.like[i]).shape).value());
  return results;
}

template <const Through& kThrough>
OpDef back(OpKind kind, const char* name, Arity inputs, std::vector<AttrSpec> attrs, int outputs = 1) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name, 1, "com.microsoft"};
  def.attrs = std::move(attrs);
  def.inputs = inputs;
  def.outputs = {1, outputs};
  def.infer = infer_back<kThrough>;
  def.decompose = decompose_back<kThrough>;
  return def;
}

bool infer_gelu_grad(const OpView& op, std::vector<TensorType>& results) {
  return is_real_operand(op, 1) && is_like(op, 0, op.type(1)) && infer_same(op, results);
}

/// The normal distribution's function at x, and x times its density.
std::vector<ValueId> decompose_gelu_grad(Builder& build, const OpView& op) {
  const Term g(build, op.op().inputs[0]), x(build, op.op().inputs[1]);
  const Term distribution = ((x * std::sqrt(0.5)).apply(OpKind::Erf) + 1) * 0.5;
  const Term density = (x * x * -0.5).apply(OpKind::Exp) * std::sqrt(0.5 / M_PI);
  return {(g * (distribution + x * density)).value()};
}

std::vector<AttrSpec> axis_attr(int64_t otherwise) { return {{"axis", AttrType::Int, otherwise}}; }

}  // namespace

const OpDef kReluGrad = back<kThroughRelu>(OpKind::ReluGrad, "ReluGrad", {2, 2}, {});
const OpDef kSoftmaxGrad = back<kThroughFlatSoftmax>(OpKind::SoftmaxGrad, "SoftmaxGrad", {2, 2}, axis_attr(1));
const OpDef kSoftmaxGrad_13 = back<kThroughSoftmax>(OpKind::SoftmaxGrad_13, "SoftmaxGrad_13", {2, 2}, axis_attr(-1));
const OpDef kLogSoftmaxGrad =
    back<kThroughFlatLogSoftmax>(OpKind::LogSoftmaxGrad, "LogSoftmaxGrad", {2, 2}, axis_attr(1));
const OpDef kLogSoftmaxGrad_13 =
    back<kThroughLogSoftmax>(OpKind::LogSoftmaxGrad_13, "LogSoftmaxGrad_13", {2, 2}, axis_attr(-1));
const OpDef kSoftmaxCrossEntropyLossGrad =
    back<kThroughCrossEntropy>(OpKind::SoftmaxCrossEntropyLossGrad, "SoftmaxCrossEntropyLossGrad", {3, 4},
                               {{"ignore_index", AttrType::Int}, choice("reduction", "mean", "none mean sum")});
const OpDef kLayerNormalizationGrad = back<kThroughLayerNormalization>(
    OpKind::LayerNormalizationGrad, "LayerNormalizationGrad", {5, 5},
    {{"axis", AttrType::Int, -1}, {"epsilon", AttrType::Real, 1e-5}, {"stash_type", AttrType::Int}}, 3);

const OpDef kGeluGrad{.kind = OpKind::GeluGrad,
                      .name = "GeluGrad",
                      .onnx = {"GeluGrad", 1, "com.microsoft"},
                      .inputs = {2, 2},
                      .infer = infer_gelu_grad,
                      .decompose = decompose_gelu_grad};

}  // namespace weftc

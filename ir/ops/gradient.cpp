// Gradient of ai.onnx.preview.training: the partial derivatives of a result by reverse-mode differentiation, which the
// pass differentiate expands.
#include "ir/ops/gradient.h"

namespace weftc {

static bool infer_gradient(const OpView& op, std::vector<TensorType>& results) {
  const size_t count = op.op().texts("xs").size();
  if (count == 0 || count >= op.op().inputs.size())
    return op.fail("gradient-names", "'xs' has {} names for {} operands", count, op.op().inputs.size() - 1);
  if (op.op().outputs.size() > count)
    return op.fail("gradient-names", "'xs' has {} names for {} outputs", count, op.op().outputs.size());
  const int y = op.inputs() - 1;
  const std::optional<Training>& training = op.module().training;
  const bool is_loss = training && training->loss == op.op().text("y");
  if (is_loss && (!is_float(op.type(y).dtype) || !is_static(op.type(y).shape) || op.type(y).count() != 1))
    return op.fail("train-loss-type", "the loss '{}' is {}: one number is needed, such as a mean",
                   printable(op.op().text("y")), type_text(op.type(y), {}));
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

/// Inputs: the values of `xs`, then `zs`, then y, which the reader adds. Results: the derivative of y by each x.
const OpDef kGradient{
    .kind = OpKind::Gradient,
    .name = "Gradient",
    .onnx = {"Gradient", 1, "ai.onnx.preview.training"},
    .attrs = {{"xs", AttrType::Texts, {}, true}, {"y", AttrType::Text, {}, true}, {"zs", AttrType::Texts}},
    .inputs = {2, -1},
    .outputs = {1, -1},
    .infer = infer_gradient};

}  // namespace weftc

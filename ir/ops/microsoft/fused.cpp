// Ops of com.microsoft that combine several ONNX ops: FusedGemm and FusedConv with an activation, NhwcConv, BiasAdd,
// BiasSplitGelu. They are split again, because fusion finds its own kernels.
#include <algorithm>
#include <map>

#include "ir/ops/formula.h"
#include "ir/ops/window.h"

namespace weftc {

namespace {

// Activations by ONNX Runtime's names.

/// Activations without parameters.
const std::map<std::string, OpKind> kPlainActivations{{"HardSwish", OpKind::HardSwish}, {"Relu", OpKind::Relu},
                                                      {"Sigmoid", OpKind::Sigmoid},     {"Softplus", OpKind::Softplus},
                                                      {"Softsign", OpKind::Softsign},   {"Tanh", OpKind::Tanh}};

bool is_activation(const OpView& op) {
  const std::string& name = text_of(op.op(), "activation");
  if (kPlainActivations.contains(name)) return true;
  for (const char* known : {"", "LeakyRelu", "Clip", "HardSigmoid", "Elu"})
    if (name == known) return true;
  return op.fail("activation-unsupported", "the activation '{}' is not supported", printable(name));
}

/// `first` and `second` are the parameters of the activation.
ValueId activated(Builder& build, ValueId x, const std::string& name, double first, double second) {
  if (name.empty()) return x;
  if (name == "Clip") return Term(build, x).clamp(first, second).value();
  if (name == "LeakyRelu") return build.op(OpKind::LeakyRelu, {x}, {{"alpha", first}});
  if (name == "Elu") return build.op(OpKind::Elu, {x}, {{"alpha", first}});
  if (name == "HardSigmoid") return build.op(OpKind::HardSigmoid, {x}, {{"alpha", first}, {"beta", second}});
  return build.op(kPlainActivations.at(name), {x});
}

/// The attributes of `op` that its parts have too.
Attrs shared_attrs(const Op& op, std::initializer_list<const char*> names) {
  Attrs attrs;
  for (const char* name : names)
    if (const AttrValue* value = op.find(name)) attrs.push_back({name, *value});
  return attrs;
}

/// Infers as another record does for these operands and attributes.
bool infer_as(OpKind kind, const OpView& op, size_t operands, const Attrs& attrs, std::vector<TensorType>& results) {
  Op plain = op.op();
  plain.kind = kind;
  plain.attrs = attrs;
  if (plain.inputs.size() > operands) plain.inputs.resize(operands);
  while (!plain.inputs.back()) plain.inputs.pop_back();
  return op_def(kind).infer(op.with(plain), results);
}

// FusedGemm.

Attrs gemm_attrs(const Op& op) { return shared_attrs(op, {"alpha", "beta", "transA", "transB"}); }

bool infer_fused_gemm(const OpView& op, std::vector<TensorType>& results) {
  return is_activation(op) && infer_as(OpKind::Gemm, op, 3, gemm_attrs(op.op()), results);
}

std::vector<ValueId> decompose_fused_gemm(Builder& build, const OpView& op) {
  const Op own = op.op();  // NOLINT(performance-unnecessary-copy-initialization): ops move
  const ValueId y = build.op(OpKind::Gemm, own.inputs, gemm_attrs(own));
  const double first = own.has("activation_alpha") ? own.real("activation_alpha") : 0.01,
               second = own.has("activation_beta") ? own.real("activation_beta") : 0;
  return {activated(build, y, text_of(own, "activation"), first, second)};
}

// FusedConv: the fourth operand is added to the result of the convolution, before the activation.

constexpr std::initializer_list<const char*> kConvAttrs = {"auto_pad",     "dilations", "group",
                                                           "kernel_shape", "pads",      "strides"};

bool infer_fused_conv(const OpView& op, std::vector<TensorType>& results) {
  const size_t params = op.op().has("activation_params") ? op.op().reals("activation_params").size() : 0;
  const std::string& name = text_of(op.op(), "activation");
  const size_t needed = name == "Clip" || name == "HardSigmoid" ? 2 : name == "LeakyRelu" ? 1 : 0;
  if (params < needed)
    return op.fail("activation-params", "activation_params has {} entries, {} needs {}", params, name, needed);
  return is_activation(op) && infer_as(OpKind::Conv, op, 3, shared_attrs(op.op(), kConvAttrs), results);
}

std::vector<ValueId> decompose_fused_conv(Builder& build, const OpView& op) {
  const Op own = op.op();  // NOLINT(performance-unnecessary-copy-initialization): ops move
  std::vector<ValueId> inputs = own.inputs;
  const ValueId added = inputs.size() > 3 ? inputs[3] : ValueId{};
  inputs.resize(std::min<size_t>(inputs.size(), 3));
  while (!inputs.back()) inputs.pop_back();
  ValueId y = build.op(OpKind::Conv, inputs, shared_attrs(own, kConvAttrs));
  if (added) y = add(build, y, added);
  std::vector<double> params = own.has("activation_params") ? own.reals("activation_params") : std::vector<double>{};
  params.resize(2, 1);
  return {activated(build, y, text_of(own, "activation"), params[0], params[1])};
}

// NhwcConv: the image has its channels last; filters have Conv's order.

bool infer_nhwc_conv(const OpView& op, std::vector<TensorType>& results) {
  if (!same_dtypes(op) || !has_ndim(op, 0, 3)) return false;
  const std::optional<Shape> y = convolution_shape(op, 1, with_channels_first(op.type(0).shape));
  if (!y || !has_fitting_bias(op, (*y)[1].bound)) return false;
  results = {{op.type(0).dtype, with_channels_last(*y), {}}};
  return true;
}

std::vector<ValueId> decompose_nhwc_conv(Builder& build, const OpView& op) {
  const Op own = op.op();  // NOLINT(performance-unnecessary-copy-initialization): ops move
  const int64_t ndim = op.type(0).ndim();
  std::vector<ValueId> inputs = own.inputs;
  inputs[0] = build.transpose(inputs[0], with_channels_first(range_of(0, ndim)));
  const ValueId y = build.op(OpKind::Conv, inputs, shared_attrs(own, kConvAttrs));
  return {build.transpose(y, with_channels_last(range_of(0, ndim)))};
}

// BiasAdd: x + bias + skip. BiasSplitGelu: the first half of x + bias times the Gelu of the second.

bool infer_bias_add(const OpView& op, std::vector<TensorType>& results) {
  return is_real_operand(op, 0) && infer_broadcast(op, results);
}

bool infer_bias_split_gelu(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, 0) || !has_ndim(op, 0, 1) || !infer_broadcast(op, results)) return false;
  Extent& last = results[0].shape.back();
  if (last.is_run_time() || last.bound % 2)
    return op.fail("bias-split-gelu-dims", "the last dimension, of {} elements, cannot be halved", last.bound);
  last.bound /= 2;
  return true;
}

std::vector<ValueId> decompose_bias_split_gelu(Builder& build, const OpView& op) {
  const ValueId sum = add(build, op.op().inputs[0], op.op().inputs[1]);
  const std::vector<ValueId> halves =
      build.ops(OpKind::Split, {sum}, {{"axis", int64_t{op.type(0).ndim() - 1}}, {"num_outputs", int64_t{2}}}, 2);
  return {multiply(build, halves[0], build.op(OpKind::Gelu, {halves[1]}))};
}

}  // namespace

const OpDef kFusedGemm{.kind = OpKind::FusedGemm,
                       .name = "FusedGemm",
                       .onnx = {"FusedGemm", 1, "com.microsoft"},
                       .attrs = {{"activation", AttrType::Text, ""},
                                 {"activation_alpha", AttrType::Real},
                                 {"activation_beta", AttrType::Real},
                                 {"activation_gamma", AttrType::Real},
                                 {"alpha", AttrType::Real, 1.0},
                                 {"beta", AttrType::Real, 1.0},
                                 flag("transA", 0),
                                 flag("transB", 0)},
                       .inputs = {2, 3},
                       .infer = infer_fused_gemm,
                       .decompose = decompose_fused_gemm};

static OpDef convolution(OpKind kind, const char* name, Arity inputs, InferFn infer, DecomposeFn decompose) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name, 1, "com.microsoft"};
  def.attrs = {choice("auto_pad", "NOTSET", "NOTSET VALID SAME_UPPER SAME_LOWER"),
               {"dilations", AttrType::Ints},
               {"group", AttrType::Int, 1},
               {"kernel_shape", AttrType::Ints},
               {"pads", AttrType::Ints},
               {"strides", AttrType::Ints}};
  def.inputs = inputs;
  def.infer = infer;
  def.decompose = decompose;
  return def;
}

static OpDef fused_conv() {
  OpDef def = convolution(OpKind::FusedConv, "FusedConv", {2, 4}, infer_fused_conv, decompose_fused_conv);
  def.attrs.insert(def.attrs.begin(), {{"activation", AttrType::Text, ""}, {"activation_params", AttrType::Reals}});
  return def;
}

const OpDef kFusedConv = fused_conv();
const OpDef kNhwcConv = convolution(OpKind::NhwcConv, "NhwcConv", {2, 3}, infer_nhwc_conv, decompose_nhwc_conv);

const OpDef kBiasAdd{.kind = OpKind::BiasAdd,
                     .name = "BiasAdd",
                     .onnx = {"BiasAdd", 1, "com.microsoft"},
                     .inputs = {3, 3},
                     .infer = infer_bias_add,
                     .decompose = [](Builder& build, const OpView& op) {
                       const std::vector<ValueId> in = op.op().inputs;
                       return std::vector<ValueId>{add(build, add(build, in[0], in[1]), in[2])};
                     }};

const OpDef kBiasSplitGelu{.kind = OpKind::BiasSplitGelu,
                           .name = "BiasSplitGelu",
                           .onnx = {"BiasSplitGelu", 1, "com.microsoft"},
                           .inputs = {2, 2},
                           .infer = infer_bias_split_gelu,
                           .decompose = decompose_bias_split_gelu};

}  // namespace weftc

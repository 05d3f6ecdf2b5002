// Rules that move a factor and a summand for each channel into the weights and the bias of the preceding product.
//
// New weights are computed in double and rounded once. A rule does not fire where that would lose more
// than the rounding of the largest weight of the channel: 16-bit floats have few exponents, and a small factor makes
// subnormal numbers of their weights.
#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>

#include "ir/ops/record.h"
#include "passes/simplify/rules.h"

namespace weftc {

namespace {

/// y = x * factor + shift, for each channel. No shifts: all are zero.
struct Affine {
  std::vector<double> factor, shift;
};

/// The weights and bias with which a product absorbs the affine function that follows it.
struct NewWeights {
  Tensor weights;
  std::optional<Tensor> bias;
};

/// The dimension of a product's weights that is the channels of its result; nothing where several dimensions are.
std::optional<size_t> channel_dim_of_weights(const Op& product, const TensorType& weights) {
  if (product.kind == OpKind::Conv) return 0;
  if (product.kind == OpKind::ConvTranspose)
    return int_of(product, "group") == 1 ? std::optional<size_t>(1) : std::nullopt;
  if (product.kind == OpKind::Gemm) return int_of(product, "transB") ? 0 : 1;
  return weights.ndim() > 1 ? std::optional(weights.shape.size() - 1) : std::nullopt;
}

/// Half a unit in the last place of 1.
double rounding_of(DType dtype) {
  const int digits = dtype == DType::F64 ? 53 : dtype == DType::F32 ? 24 : dtype == DType::F16 ? 11 : 8;
  return std::ldexp(1, -digits);
}

/// Calls visit(group, elements) for each run of `inner` neighbouring elements of one group: run r is of group r modulo
/// `groups`.
template <class Elements, class Visit>
void for_each_run(Elements& all, int64_t inner, int64_t groups, const Visit& visit) {
  const std::span<std::remove_reference_t<decltype(all[0])>> elements(all);
  const size_t length = static_cast<size_t>(inner);
  for (size_t first = 0, run = 0; first < elements.size(); first += length, ++run)
    visit(run % static_cast<size_t>(groups), elements.subspan(first, length));
}

/// True if rounding to the tensor's type changes no element by more than the rounding of the largest of its group.
bool keeps_precision(const Tensor& tensor, int64_t inner, int64_t groups) {
  std::vector<double> largest(static_cast<size_t>(groups)), loss(largest);
  bool is_finite = true;
  for_each_run(tensor.real, inner, groups, [&](size_t group, std::span<const double> elements) {
    for (const double element : elements) {
      const double rounded = round_to(tensor.dtype, element);
      is_finite = is_finite && std::isfinite(rounded);
      largest[group] = std::max(largest[group], std::fabs(element));
      loss[group] = std::max(loss[group], std::fabs(rounded - element));
    }
  });
  if (!is_finite) return false;
  for (size_t g = 0; g < largest.size(); ++g)
    if (loss[g] > largest[g] * rounding_of(tensor.dtype)) return false;
  return true;
}

ValueId bias_of(const Op& product) { return product.inputs.size() > 2 ? product.inputs[2] : ValueId{}; }

/// The bias as a vector over the channels; nothing where it is no such constant.
std::optional<Tensor> known_bias(const Match& match, DType dtype, int64_t channels) {
  const Op& product = match.op("product");
  const ValueId bias = bias_of(product);
  if (!bias) return Tensor(dtype, {channels});
  if (!match.is_constant(bias) || (product.kind == OpKind::Gemm && real_of(product, "beta") != 1)) return {};
  Tensor tensor = match.tensor(bias);
  if (tensor.dims.empty() || tensor.dims.back() != channels || tensor.size() != channels) return {};
  tensor.dims = {channels};
  return tensor;
}

/// Weights and bias with which the product includes the `affine` that follows it; nothing where it cannot.
std::optional<NewWeights> new_weights(const Match& match, const Affine& affine) {
  const std::optional<size_t> dim = channel_dim_of_weights(match.op("product"), match.type("w"));
  if (!dim || !is_float(match.type("w").dtype)) return {};
  NewWeights made{match.tensor(match["w"]), {}};
  const int64_t channels = made.weights.dims[*dim], inner = strides_of(made.weights.dims)[*dim];
  const auto factor = [&](int64_t channel) {
    return affine.factor[affine.factor.size() == 1 ? 0 : static_cast<size_t>(channel)];
  };
  for_each_run(made.weights.real, inner, channels, [&](size_t channel, std::span<double> elements) {
    for (double& element : elements) element *= factor(static_cast<int64_t>(channel));
  });
  if (!keeps_precision(made.weights, inner, channels)) return {};
  if (!bias_of(match.op("product")) && affine.shift.empty()) return made;
  made.bias = known_bias(match, made.weights.dtype, channels);
  if (!made.bias) return {};
  for (int64_t c = 0; c < channels; ++c)
    made.bias->real[c] = made.bias->real[c] * factor(c) + (affine.shift.empty() ? 0 : affine.shift[c]);
  return keeps_precision(*made.bias, channels, 1) ? std::optional(made) : std::nullopt;
}

ValueId put_product(Rewriter& write, const Match& match, const NewWeights& made) {
  const Op product = match.op("product");  // NOLINT(performance-unnecessary-copy-initialization): ops move
  std::vector<ValueId> operands{match["x"], match["w"]};
  if (made.bias) operands.push_back(write.constant(*made.bias));
  write.change(match["w"], made.weights);
  Attrs attrs = product.attrs;
  if (product.kind == OpKind::Gemm) std::erase_if(attrs, [](const Attr& attr) { return attr.name == "beta"; });
  return write.op(product.kind, std::move(operands), std::move(attrs));
}

Affine normalization(const Match& match) {
  const Tensor scale = match.tensor(match["scale"]), bias = match.tensor(match["bias"]),
               mean = match.tensor(match["mean"]), variance = match.tensor(match["variance"]);
  const double epsilon = real_of(match.root(), "epsilon");
  Affine affine;
  for (int64_t c = 0; c < scale.size(); ++c) {
    affine.factor.push_back(scale.real[c] / std::sqrt(variance.real[c] + epsilon));
    affine.shift.push_back(bias.real[c] - mean.real[c] * affine.factor.back());
  }
  return affine;
}

/// The constant factor of a Mul, if it is one number or one for each channel.
std::optional<Affine> scaling(const Match& match) {
  const TensorType& result = match.root_type();
  const Dims dims = match.type("c").dims();
  if (result != match.type("product") || !is_float(result.dtype)) return {};
  const int channels = match.op("product").kind == OpKind::MatMul ? result.ndim() - 1 : 1;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d)
    if (dims[d] != 1 && result.ndim() - static_cast<int>(dims.size()) + d != channels) return {};
  return Affine{match.tensor(match["c"]).real, {}};
}

/// In training, statistics are computed from the operand.
bool is_inference(const Match& match) { return int_of(match.root(), "training_mode") == 0; }

bool weights_normalize(const Match& match) {
  return is_inference(match) && new_weights(match, normalization(match)).has_value();
}
ValueId put_normalizing_product(Rewriter& write, const Match& match) {
  return put_product(write, match, *new_weights(match, normalization(match)));
}

bool weights_scale(const Match& match) {
  const std::optional<Affine> affine = scaling(match);
  return affine && new_weights(match, *affine);
}
ValueId put_scaling_product(Rewriter& write, const Match& match) {
  return put_product(write, match, *new_weights(match, *scaling(match)));
}

bool can_be_affine(const Match& match) { return is_inference(match) && !match.type("x").shape[1].is_run_time(); }

ValueId put_affine(Rewriter& write, const Match& match) {
  const Affine affine = normalization(match);
  const TensorType x = match.type("x");  // NOLINT(performance-unnecessary-copy-initialization): values move
  Dims dims(static_cast<size_t>(x.ndim() - 1), 1);
  dims[0] = x.shape[1].bound;
  Tensor factor(x.dtype, dims), shift(x.dtype, dims);
  factor.real = affine.factor;
  shift.real = affine.shift;
  const ValueId scaled = write.op(OpKind::Mul, {match["x"], write.constant(factor)});
  return write.op(OpKind::Add, {scaled, write.constant(shift)});
}

/// A product whose result only the root reads, with weights that only the product reads.
Pattern product(std::vector<OpKind> kinds) {
  return op(std::move(kinds), {any("x"), constant("w").read_once()}).as("product").read_once();
}

Pattern normalized(Pattern operand) {
  return op(OpKind::BatchNormalization,
            {std::move(operand), constant("scale"), constant("bias"), constant("mean"), constant("variance")});
}

}  // namespace

std::span<const Rule> weight_rules() {
  static const std::vector<Rule> rules{
      // BatchNormalization(Conv(x, w) + b)  ->  Conv(x, w * f) + (b * f + s)  with f = scale / sqrt(variance + epsilon)
      // and s = bias - mean * f
      {"normalization-into-weights", normalized(product({OpKind::Conv, OpKind::ConvTranspose, OpKind::Gemm})),
       weights_normalize, put_normalizing_product},
      // BatchNormalization(x)  ->  x * f + s  with the same f and s
      {"normalization-of-constants", normalized(any("x")), can_be_affine, put_affine},
      // (x @ w + b) * c  ->  x @ (w * c) + b * c  where c is one number, or one for each channel
      {"factor-into-weights",
       op(OpKind::Mul, {product({OpKind::Conv, OpKind::ConvTranspose, OpKind::Gemm, OpKind::MatMul}), constant("c")}),
       weights_scale, put_scaling_product},
  };
  return rules;
}

}  // namespace weftc

// Normalisations over trailing dimensions: LayerNormalization (ONNX 17), RMSNormalization (23) and ONNX Runtime's
// variants (Skip..., Simplified...). They become means and pointwise ops over rows, which grow-reduction merges into
// one kernel:
//
//   LayerNormalization(x, s, b)  ->  d = x - mean(x);  d * (1 / sqrt(mean(d * d) + epsilon)) * s + b
#include "ir/ops/gradient.h"
#include "ir/tied_extents.h"

namespace weftc {

namespace {

/// The normalised operand, and the statistics that are results of the op; the mean is absent without centering.
struct Normalized {
  ValueId value, mean, inverse_deviation;
};

/// (x - mean) / sqrt(variance + epsilon) over `axes`; without `centered` the mean is 0.
Normalized normalize(Builder& build, ValueId x, const std::vector<int64_t>& axes, double epsilon, bool centered) {
  const ValueId center = centered ? mean(build, x, axes, true) : ValueId{};
  const ValueId deviation = centered ? subtract(build, x, center) : x;
  const ValueId variance = mean(build, multiply(build, deviation, deviation), axes, true);
  const ValueId root = build.op(OpKind::Sqrt, {with_scalar(build, OpKind::Add, variance, epsilon)});
  const ValueId inverse = build.op(OpKind::Reciprocal, {root});
  return {multiply(build, deviation, inverse), center, inverse};
}

/// The type of the statistics: f32 for 16-bit operands unless stash_type requests another one, f64 for f64. Sums of
/// squares in 16 bits would overflow.
DType stash_dtype(const OpView& op) {
  const DType dtype = op.type(0).dtype;
  if (!op.op().has("stash_type")) return dtype == DType::F64 ? DType::F64 : DType::F32;
  return dtype == DType::F64 ? dtype : onnx_dtype(op.op().integer("stash_type")).value_or(DType::F32);
}

bool has_stash_type(const OpView& op) {
  if (is_float(stash_dtype(op))) return true;
  return op.fail("stash-type", "stash_type is {}, a floating type is needed", dtype_name(stash_dtype(op)));
}

/// Operands from `first` on can be broadcast to operand 0 and have its dtype.
bool fits_operand(const OpView& op, int first) {
  if (!same_dtypes(op)) return false;
  for (int i = first; i < op.inputs(); ++i) {
    if (!op.has(i)) continue;
    if (!is_broadcast_to(op.type(i).shape, op.type(0).shape))
      return op.fail("normalization-dims", "operand {} of shape {} does not fit an operand of shape {}", i,
                     dims_text(op.dims(i)), dims_text(op.dims(0)));
  }
  return true;
}

/// The result, then mean and inverse deviation, with normalised dims of extent 1.
bool infer_normalization(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim());
  if (!axis || !is_real_operand(op, 0) || !has_stash_type(op) || !fits_operand(op, 1)) return false;
  TensorType statistics{stash_dtype(op), op.type(0).shape, {}};
  for (int d = static_cast<int>(*axis); d < statistics.ndim(); ++d) statistics.shape[d] = {1, {}};
  results = {{op.type(0).dtype, op.type(0).shape, {}}, statistics, statistics};
  return true;
}

/// The dims from `axis` on, which are normalised together.
std::vector<int64_t> trailing_axes(const OpView& op) {
  const int64_t ndim = op.type(0).ndim();
  return range_of(from_front(int_of(op.op(), "axis"), ndim), ndim);
}

/// Statistics in the stash type; factor and bias in the operand's, as in LayerNormalization-17.
std::vector<ValueId> decompose_layer_normalization(Builder& build, const OpView& op) {
  const DType dtype = op.type(0).dtype, stash = stash_dtype(op);
  const std::vector<ValueId> inputs = op.op().inputs;
  const bool has_bias = op.has(2);
  const Normalized n =
      normalize(build, build.cast(inputs[0], stash), trailing_axes(op), real_of(op.op(), "epsilon"), true);
  ValueId result = multiply(build, build.cast(n.value, dtype), inputs[1]);
  if (has_bias) result = add(build, result, inputs[2]);
  return {result, n.mean, n.inverse_deviation};
}

/// Let h be the normalised rows and u = g * scale. The derivative by x has no component along 1 or h, because the
/// normalisation removes these.
Derivatives gradient_of_layer_normalization(const BackwardStep& s) {
  const std::vector<int64_t> axes = trailing_axes(s.view);
  const DType dtype = s.g.dtype(), stash = stash_dtype(s.view);
  const auto row_mean = [&](const Term& t) { return Term(s.build, mean(s.build, t.value(), axes, true)); };
  const Term inverse = s.out(2), h = (s.in(0).cast(stash) - s.out(1)) * inverse, u = (s.g * s.in(1)).cast(stash);
  const Term dx = inverse * (u - row_mean(u) - h * row_mean(u * h));
  return {dx.cast(dtype), s.g * h.cast(dtype), s.g};
}

/// Division by the root mean square. SimplifiedLayerNormalization, the older name, has the inverse deviation as its
/// second result.
std::vector<ValueId> decompose_rms_normalization(Builder& build, const OpView& op) {
  const DType dtype = op.type(0).dtype, stash = stash_dtype(op);
  const std::vector<ValueId> inputs = op.op().inputs;
  const Normalized n =
      normalize(build, build.cast(inputs[0], stash), trailing_axes(op), real_of(op.op(), "epsilon"), false);
  return {multiply(build, build.cast(n.value, dtype), inputs[1]), n.inverse_deviation};
}

std::vector<AttrSpec> normalization_attrs() {
  return {{"axis", AttrType::Int, -1}, {"epsilon", AttrType::Real, 1e-5}, {"stash_type", AttrType::Int}};
}

OpDef rms_normalization(OpKind kind, const char* name, int outputs) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name};
  def.attrs = normalization_attrs();
  def.inputs = {2, 2};
  def.outputs = {1, outputs};
  def.infer = infer_normalization;
  def.canonicalize = canonical_axis;
  def.decompose = decompose_rms_normalization;
  return def;
}

/// input, skip, gamma, then beta (only with centering) and bias. Outputs: result, mean, inverse deviation, the sum.
bool infer_skip(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, 0) || !has_ndim(op, 0, 2) || !has_stash_type(op) || !fits_operand(op, 1)) return false;
  const TensorType type{op.type(0).dtype, op.type(0).shape, {}};
  TensorType statistics{stash_dtype(op), type.shape, {}};
  statistics.shape.back() = {1, {}};
  results = {type, statistics, statistics, type};
  return true;
}

/// The residual sum first (it is result 3, for the next layer's skip), then the normalisation of it.
std::vector<ValueId> decompose_skip(Builder& build, const OpView& op, bool centered) {
  const DType dtype = op.type(0).dtype, stash = stash_dtype(op);
  const std::vector<ValueId> inputs = op.op().inputs;
  const auto operand = [&](size_t i) { return i < inputs.size() ? inputs[i] : ValueId{}; };
  const ValueId bias = operand(centered ? 4 : 3), beta = centered ? operand(3) : ValueId{};
  const int64_t last = op.type(0).ndim() - 1;
  ValueId sum = add(build, inputs[0], inputs[1]);
  if (bias) sum = add(build, sum, bias);
  const Normalized n = normalize(build, build.cast(sum, stash), {last}, real_of(op.op(), "epsilon"), centered);
  ValueId result = multiply(build, build.cast(n.value, dtype), inputs[2]);
  if (beta) result = add(build, result, beta);
  return {result, n.mean, n.inverse_deviation, sum};
}

/// com.microsoft's SkipLayerNormalization and its variant without centering, which has no beta.
OpDef skip_normalization(OpKind kind, const char* name, int inputs, DecomposeFn decompose) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name, 1, "com.microsoft"};
  def.attrs = {{"epsilon", AttrType::Real, 1e-12}};
  def.inputs = {3, inputs};
  def.outputs = {1, 4};
  def.infer = infer_skip;
  def.decompose = decompose;
  return def;
}

}  // namespace

const OpDef kLayerNormalization{.kind = OpKind::LayerNormalization,
                                .name = "LayerNormalization",
                                .onnx = {"LayerNormalization"},
                                .attrs = normalization_attrs(),
                                .inputs = {2, 3},
                                .outputs = {1, 3},
                                .infer = infer_normalization,
                                .canonicalize = canonical_axis,
                                .gradient = gradient_of_layer_normalization,
                                .kept_results = 3,
                                .decompose = decompose_layer_normalization};

const OpDef kRMSNormalization = rms_normalization(OpKind::RMSNormalization, "RMSNormalization", 1);

static OpDef simplified() {
  OpDef def = rms_normalization(OpKind::SimplifiedLayerNormalization, "SimplifiedLayerNormalization", 2);
  def.aliases = {{"SimplifiedLayerNormalization", 1, "com.microsoft"}};
  return def;
}
const OpDef kSimplifiedLayerNormalization = simplified();

const OpDef kSkipLayerNormalization =
    skip_normalization(OpKind::SkipLayerNormalization, "SkipLayerNormalization", 5,
                       [](Builder& build, const OpView& op) { return decompose_skip(build, op, true); });
const OpDef kSkipSimplifiedLayerNormalization =
    skip_normalization(OpKind::SkipSimplifiedLayerNormalization, "SkipSimplifiedLayerNormalization", 4,
                       [](Builder& build, const OpView& op) { return decompose_skip(build, op, false); });

}  // namespace weftc

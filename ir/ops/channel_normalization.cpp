// Normalisations that treat dimension 1 as channels: BatchNormalization, InstanceNormalization, GroupNormalization,
// LRN, MeanVarianceNormalization, LpNormalization. All are composites of reductions and pointwise ops, which fusion
// joins into one kernel over rows. A BatchNormalization of constants does not occur here: the rules of simplify fold it
// into a convolution's weights, or into a factor and a shift.
//
//   BatchNormalization(x, scale, bias, mean, variance)  ->  x * s + t     s, t: vectors over the channels
//   InstanceNormalization(x, scale, bias)               ->  (x - mean(x)) / sqrt(var(x) + epsilon) * scale + bias
#include <cmath>

#include "ir/ops/gradient.h"

namespace weftc {

namespace {

/// A vector over the channels, shaped to broadcast over an operand of `ndim` dimensions.
ValueId over_channels(Builder& build, ValueId vector, int ndim) {
  Dims dims(ndim - 1, 1);
  dims[0] = build.type(vector).count();
  return build.reshape(vector, dims);
}

/// Operands `first` to `last` are vectors of `length` floats.
bool are_vectors(const OpView& op, int first, int last, int64_t length) {
  for (int i = first; i <= last; ++i) {
    if (!is_real_operand(op, i) || !is_fixed(op, i)) return false;
    if (op.type(i).ndim() == 1 && op.type(i).count() == length) continue;
    return op.fail("normalization-dims", "operand {} has shape {}, a vector of {} is needed", i, dims_text(op.dims(i)),
                   length);
  }
  return true;
}

/// BatchNormalization-7: spatial = 0 would mean statistics for each element. With training_mode = 1 (since 14) the
/// statistics are those of x, and the next two results update the running ones. A training adds an operand that selects
/// the running statistics instead. Older opsets declare up to five outputs.
bool infer_batch_normalization(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 2)) return false;
  if (!int_of(op.op(), "spatial"))
    return op.fail("batch-normalization-mode-unsupported", "only statistics over channels are supported");
  if (int_of(op.op(), "training_mode") && !is_fixed(op, 0)) return false;
  if (!is_real_operand(op, 0) || !are_vectors(op, 1, 4, op.type(0).shape[1].bound) || !same_dtypes(op, 3, 5))
    return false;
  const bool may_choose = int_of(op.op(), "training_mode") && op.has(5);
  if (op.inputs() == 6 && !(may_choose && op.type(5).dtype == DType::Bool && op.type(5).count() == 1))
    return op.fail("batch-normalization-operands", "5 operands are needed, not 6");
  const TensorType statistics{op.type(3).dtype, op.type(3).shape, {}};
  results = {{op.type(0).dtype, op.type(0).shape, {}}, statistics, statistics, statistics, statistics};
  return true;
}

/// (x - mean) / sqrt(variance + epsilon) over `axes`.
ValueId standardize(Builder& build, ValueId x, const std::vector<int64_t>& axes, double epsilon) {
  const ValueId deviation = subtract(build, x, mean(build, x, axes, true));
  const ValueId variance = mean(build, multiply(build, deviation, deviation), axes, true);
  return divide(build, deviation, build.op(OpKind::Sqrt, {with_scalar(build, OpKind::Add, variance, epsilon)}));
}

/// All dims but the channels.
std::vector<int64_t> dims_of_channels(int ndim) {
  std::vector<int64_t> axes = range_of(2, ndim);
  axes.insert(axes.begin(), 0);
  return axes;
}

/// Normalises by the statistics of x over all dims but the channels. Running statistics keep the share `momentum` of
/// their old value; the last two results are the statistics of x.
std::vector<ValueId> train_batch_normalization(Builder& build, const OpView& op) {
  const std::vector<ValueId> in = op.op().inputs;
  const int ndim = op.type(0).ndim();
  const DType dtype = op.type(0).dtype, stash = wide(dtype), running = op.type(3).dtype;
  const double epsilon = real_of(op.op(), "epsilon"), momentum = real_of(op.op(), "momentum");
  const auto channels = [&](int i) { return over_channels(build, build.cast(in[i], stash), ndim); };
  // Both statistics are computed once, for all results: with a sliced batch each needs an all-reduce.
  const std::vector<int64_t> axes = dims_of_channels(ndim);
  const ValueId x = build.cast(in[0], stash);
  const ValueId center = mean(build, x, axes, true), own_deviation = subtract(build, x, center);
  const ValueId variance = mean(build, multiply(build, own_deviation, own_deviation), axes, true);
  const auto used = [&](int i, ValueId own) {
    return op.has(5) ? build.op(OpKind::Where, {in[5], channels(i), own}) : own;
  };
  const ValueId deviation = op.has(5) ? subtract(build, x, used(3, center)) : own_deviation;
  const ValueId root = build.op(OpKind::Sqrt, {with_scalar(build, OpKind::Add, used(4, variance), epsilon)});
  const ValueId y = add(build, multiply(build, divide(build, deviation, root), channels(1)), channels(2));
  const auto flat = [&](ValueId own) { return build.cast(build.reshape(own, build.dims(in[3])), running); };
  const auto updated = [&](int i, ValueId own) {
    const ValueId kept = with_scalar(build, OpKind::Mul, in[i], momentum);
    return add(build, kept, with_scalar(build, OpKind::Mul, own, 1 - momentum));
  };
  const ValueId own_mean = flat(center), own_variance = flat(variance);
  return {build.cast(y, dtype), updated(3, own_mean), updated(4, own_variance), own_mean, own_variance};
}

/// Let h = (x - mean) / root, and let sums run over all dims but the channels. The sums of g and of g * h are the
/// derivatives by bias and scale. With training_mode, mean and root depend on x, and the derivative by x needs only
/// these sums from the batch. An evaluation is not differentiated.
Derivatives gradient_of_batch_normalization(const BackwardStep& s) {
  const int ndim = s.view.type(0).ndim();
  const DType stash = wide(s.g.dtype());
  const std::vector<int64_t> axes = dims_of_channels(ndim);
  const auto channels = [&](const Term& t) {
    return Term(s.build, over_channels(s.build, t.cast(stash).value(), ndim));
  };
  const auto by = [&](size_t i, const Term& t) { return t.cast(s.in(i).dtype()).reshape(s.in(i).dims()); };
  const bool trains = int_of(s.op, "training_mode");
  const Term g = s.g.cast(stash), deviation = s.in(0).cast(stash) - channels(trains ? s.out(3) : s.in(3));
  const Term root = (channels(trains ? s.out(4) : s.in(4)) + s.real("epsilon")).apply(OpKind::Sqrt);
  const Term h = deviation / root, factor = channels(s.in(1)) / root;
  const Term shift = g.reduce(OpKind::ReduceSum, axes, true), scale = (g * h).reduce(OpKind::ReduceSum, axes, true);
  if (!trains)
    return {(g * factor).cast(s.in(0).dtype()), by(1, scale), by(2, shift), by(3, -(shift * factor)),
            by(4, factor * scale / root * -0.5)};
  const double count = static_cast<double>(s.view.type(0).count()) / static_cast<double>(s.view.type(1).count());
  return {(factor * (g - (shift + h * scale) / count)).cast(s.in(0).dtype()), by(1, scale), by(2, shift)};
}

/// x * s + t with s = scale / sqrt(variance + epsilon), t = bias - mean * s. Computing s and t takes one element a
/// channel.
std::vector<ValueId> decompose_batch_normalization(Builder& build, const OpView& op) {
  if (int_of(op.op(), "training_mode")) return train_batch_normalization(build, op);
  const std::vector<ValueId> in = op.op().inputs;
  const int ndim = op.type(0).ndim();
  const DType dtype = op.type(0).dtype;
  const ValueId root = build.op(OpKind::Sqrt, {with_scalar(build, OpKind::Add, in[4], real_of(op.op(), "epsilon"))});
  const ValueId factor = divide(build, build.cast(in[1], build.type(root).dtype), root);
  const ValueId shift = subtract(build, build.cast(in[2], build.type(root).dtype), multiply(build, in[3], factor));
  const ValueId scaled = multiply(build, in[0], over_channels(build, build.cast(factor, dtype), ndim));
  return {add(build, scaled, over_channels(build, build.cast(shift, dtype), ndim))};
}

/// Inference of ops that keep the type of their floating operand [N, C, spatial dims].
bool infer_scaled(const OpView& op, std::vector<TensorType>& results) {
  return has_ndim(op, 0, 3) && is_fixed_dim(op, 0, 1) && is_real_operand(op, 0) && infer_same(op, results);
}

bool infer_instance_normalization(const OpView& op, std::vector<TensorType>& results) {
  return infer_scaled(op, results) && same_dtypes(op) && are_vectors(op, 1, 2, op.dims(0)[1]);
}

/// Statistics over the spatial dims of each channel of each sample, then a factor and a shift for each channel.
std::vector<ValueId> decompose_instance_normalization(Builder& build, const OpView& op) {
  const std::vector<ValueId> in = op.op().inputs;
  const int ndim = op.type(0).ndim();
  const DType dtype = op.type(0).dtype;
  const ValueId own =
      standardize(build, build.cast(in[0], wide(dtype)), range_of(2, ndim), real_of(op.op(), "epsilon"));
  const ValueId x = build.cast(own, dtype);
  return {add(build, multiply(build, x, over_channels(build, in[1], ndim)), over_channels(build, in[2], ndim))};
}

/// GroupNormalization-18 has a factor for each group, GroupNormalization-21 one for each channel.
bool import_group_normalization(Graph& graph, OpId id, int opset, const OpView&) {
  graph.edit(id).set("per_group", int64_t{opset < 21});
  return true;
}

bool infer_group_normalization(const OpView& op, std::vector<TensorType>& results) {
  if (!infer_scaled(op, results) || !same_dtypes(op)) return false;
  const int64_t groups = int_of(op.op(), "num_groups"), channels = op.dims(0)[1];
  const int64_t scales = int_of(op.op(), "per_group") ? groups : channels;
  if (groups <= 0 || channels % groups != 0)
    return op.fail("group-normalization-dims", "{} channels cannot be cut into {} groups", channels, groups);
  return are_vectors(op, 1, 2, scales);
}

/// Views [N, C, ...] as [N, groups, elements of a group] and normalises the last dim, in float for 16-bit
/// operands (stash_type). Factors apply in the grouped shape if there is one for each group, else in the
/// operand's.
std::vector<ValueId> decompose_group_normalization(Builder& build, const OpView& op) {
  const std::vector<ValueId> in = op.op().inputs;
  const Shape shape = op.type(0).shape;
  const int ndim = op.type(0).ndim();
  const int64_t groups = int_of(op.op(), "num_groups");
  const bool per_group = int_of(op.op(), "per_group");
  const double epsilon = real_of(op.op(), "epsilon");
  const DType dtype = op.type(0).dtype, stash = dtype == DType::F64 ? dtype : DType::F32;
  Shape of_group = shape;
  of_group[1].bound /= groups;
  const ValueId grouped =
      build.reshape_to(build.cast(in[0], stash), {shape[0], Extent{groups}, joined(op, of_group, 1, shape.size())});
  ValueId x = build.cast(standardize(build, grouped, {2}, epsilon), dtype);
  if (!per_group) x = build.reshape_to(x, shape);
  const int own = per_group ? 3 : ndim;
  x = add(build, multiply(build, x, over_channels(build, in[1], own)), over_channels(build, in[2], own));
  return {per_group ? build.reshape_to(x, shape) : x};
}

bool infer_lrn(const OpView& op, std::vector<TensorType>& results) {
  const int64_t size = int_of(op.op(), "size");
  if (size < 1) return op.fail("window-values", "'size' is {}, it must be at least 1", size);
  return infer_scaled(op, results);
}

/// x / (bias + alpha * mean of squares over `size` neighbouring channels)^beta, zeros outside.
std::vector<ValueId> decompose_lrn(Builder& build, const OpView& op) {
  const DType dtype = op.type(0).dtype;
  const ValueId x = build.cast(op.op().inputs[0], wide(dtype));
  const Shape shape = op.type(0).shape;
  const int64_t size = int_of(op.op(), "size"), before = (size - 1) / 2;
  const double alpha = real_of(op.op(), "alpha"), beta = real_of(op.op(), "beta"), bias = real_of(op.op(), "bias");
  const ValueId squares =
      build.reshape_to(multiply(build, x, x), {shape[0], Extent{1}, shape[1], joined(op, shape, 2, shape.size())});
  const ValueId means = build.op(OpKind::AveragePool, {squares},
                                 {{"count_include_pad", int64_t{1}},
                                  {"kernel_shape", std::vector<int64_t>{size, 1}},
                                  {"pads", std::vector<int64_t>{before, 0, size - 1 - before, 0}}});
  const ValueId sum =
      with_scalar(build, OpKind::Add, with_scalar(build, OpKind::Mul, build.reshape_to(means, shape), alpha), bias);
  return {build.cast(divide(build, x, with_scalar(build, OpKind::Pow, sum, beta)), dtype)};
}

bool infer_mean_variance(const OpView& op, std::vector<TensorType>& results) {
  return is_real_operand(op, 0) && op.axes("axes", op.type(0).ndim()) && infer_same(op, results);
}

/// (x - mean) / (sqrt(variance) + 1e-9). The constant is added to the root, as in ONNX's function body of the op.
std::vector<ValueId> decompose_mean_variance(Builder& build, const OpView& op) {
  const std::vector<int64_t> axes = *op.axes("axes", op.type(0).ndim());
  const DType dtype = op.type(0).dtype;
  const ValueId x = build.cast(op.op().inputs[0], wide(dtype));
  const ValueId deviation = subtract(build, x, mean(build, x, axes, true));
  const ValueId variance = mean(build, multiply(build, deviation, deviation), axes, true);
  const ValueId root = with_scalar(build, OpKind::Add, build.op(OpKind::Sqrt, {variance}), 1e-9);
  return {build.cast(divide(build, deviation, root), dtype)};
}

bool infer_lp(const OpView& op, std::vector<TensorType>& results) {
  const int64_t p = int_of(op.op(), "p");
  if (p != 1 && p != 2) return op.fail("lp-normalization-p", "'p' is {}, expected 1 or 2", p);
  return is_real_operand(op, 0) && op.axis("axis", op.type(0).ndim()) && infer_same(op, results);
}

/// x / norm(x) along the axis; a vector of zeros stays zeros, because its norm is replaced by 1.
std::vector<ValueId> decompose_lp(Builder& build, const OpView& op) {
  const DType dtype = op.type(0).dtype;
  const ValueId x = build.cast(op.op().inputs[0], wide(dtype));
  const std::vector<int64_t> axes{from_front(int_of(op.op(), "axis"), op.type(0).ndim())};
  const OpKind norm = int_of(op.op(), "p") == 1 ? OpKind::ReduceL1 : OpKind::ReduceL2;
  const ValueId length = build.reduce(norm, x, axes, true);
  const ValueId is_zero = build.op(OpKind::Equal, {length, build.scalar(length, 0)});
  const ValueId divisor = build.op(OpKind::Where, {is_zero, build.scalar(length, 1), length});
  return {build.cast(divide(build, x, divisor), dtype)};
}

}  // namespace

const OpDef kBatchNormalization{.kind = OpKind::BatchNormalization,
                                .name = "BatchNormalization",
                                .onnx = {"BatchNormalization", 7},
                                .attrs = {{"epsilon", AttrType::Real, 1e-5},
                                          {"momentum", AttrType::Real, 0.9},
                                          flag("spatial", 1),
                                          flag("training_mode", 0)},
                                .inputs = {5, 6},
                                .outputs = {1, 5},
                                .infer = infer_batch_normalization,
                                .gradient = gradient_of_batch_normalization,
                                .kept_results = 5,
                                .decompose = decompose_batch_normalization};

const OpDef kInstanceNormalization{.kind = OpKind::InstanceNormalization,
                                   .name = "InstanceNormalization",
                                   .onnx = {"InstanceNormalization", 6},
                                   .attrs = {{"epsilon", AttrType::Real, 1e-5}},
                                   .inputs = {3, 3},
                                   .infer = infer_instance_normalization,
                                   .decompose = decompose_instance_normalization};

const OpDef kGroupNormalization{.kind = OpKind::GroupNormalization,
                                .name = "GroupNormalization",
                                .onnx = {"GroupNormalization", 18},
                                .attrs = {{"epsilon", AttrType::Real, 1e-5},
                                          {"num_groups", AttrType::Int, {}, true},
                                          {.name = "per_group", .type = AttrType::Int, .otherwise = 0, .is_own = true},
                                          {"stash_type", AttrType::Int, 1}},
                                .inputs = {3, 3},
                                .import = import_group_normalization,
                                .infer = infer_group_normalization,
                                .decompose = decompose_group_normalization};

const OpDef kLRN{.kind = OpKind::LRN,
                 .name = "LRN",
                 .onnx = {"LRN"},
                 .attrs = {{"alpha", AttrType::Real, 1e-4},
                           {"beta", AttrType::Real, 0.75},
                           {"bias", AttrType::Real, 1.0},
                           {"size", AttrType::Int, {}, true}},
                 .infer = infer_lrn,
                 .decompose = decompose_lrn};

const OpDef kMeanVarianceNormalization{.kind = OpKind::MeanVarianceNormalization,
                                       .name = "MeanVarianceNormalization",
                                       .onnx = {"MeanVarianceNormalization", 9},
                                       .attrs = {{"axes", AttrType::Ints, std::vector<int64_t>{0, 2, 3}}},
                                       .infer = infer_mean_variance,
                                       .decompose = decompose_mean_variance};

const OpDef kLpNormalization{.kind = OpKind::LpNormalization,
                             .name = "LpNormalization",
                             .onnx = {"LpNormalization"},
                             .attrs = {{"axis", AttrType::Int, -1}, {"p", AttrType::Int, 2}},
                             .infer = infer_lp,
                             .decompose = decompose_lp};

}  // namespace weftc

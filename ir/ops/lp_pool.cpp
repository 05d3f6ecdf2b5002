// LpPool (ONNX LpPool-22) and GlobalLpPool: the p-th root of the sum of p-th powers, over windows or over all spatial
// dims. The sum over a window is its mean with all padding counted, times its size.
#include "ir/ops/gradient.h"
#include "ir/ops/window_gradient.h"

namespace weftc {

namespace {

bool has_exponent(const OpView& op) {
  const int64_t p = int_of(op.op(), "p");
  return p >= 1 || op.fail("lp-pool-p", "'p' is {}, it must be at least 1", p);
}

bool infer_lp_pool(const OpView& op, std::vector<TensorType>& results) {
  if (!has_exponent(op) || !is_real_operand(op, 0) || !has_ndim(op, 0, 3) || !is_fixed_dim(op, 0, 1)) return false;
  if (!op.op().has("kernel_shape")) return op.fail("pool-kernel", "'kernel_shape' is missing");
  const std::optional<Window> window = window_of(op, {});
  const std::optional<Shape> y = window ? windows_shape(op, *window, op.type(0).shape[1]) : std::nullopt;
  if (!y) return false;
  results = {{op.type(0).dtype, *y, {}}};
  return true;
}

Term powers(Term x, int64_t p) { return x.apply(OpKind::Abs).apply(OpKind::Pow, static_cast<double>(p)); }
Term root(Term sum, int64_t p) {
  return p == 2 ? sum.apply(OpKind::Sqrt) : sum.apply(OpKind::Pow, 1 / static_cast<double>(p));
}

/// The attributes of the average whose windows count all their elements. Pads are explicit and long enough for the last
/// window, which ceil_mode may let exceed the operand. If only a run knows that, they are long enough for one more
/// window.
Attrs attrs_of_mean(const OpView& op, const Window& window) {
  std::vector<int64_t> kernel, strides, dilations, pads(2 * window.size());
  const bool is_open = !is_static(op.type(0).shape);
  for (size_t d = 0; d < window.size(); ++d) {
    const WindowDim& dim = window[d];
    kernel.push_back(dim.kernel);
    strides.push_back(dim.stride);
    dilations.push_back(dim.dilation);
    pads[d] = dim.before;
    const int64_t stuck_out = (dim.out - 1) * dim.stride + dim.reach() - dim.in - dim.before;
    const int64_t more = int_of(op.op(), "ceil_mode") ? dim.stride - 1 : 0;
    pads[window.size() + d] = is_open ? dim.after + more : std::max(dim.after, stuck_out);
  }
  Attrs attrs{
      {"count_include_pad", int64_t{1}}, {"dilations", dilations}, {"kernel_shape", kernel}, {"strides", strides}};
  if (is_open && pads_by_length(op.op()))
    attrs.push_back({"auto_pad", text_of(op.op(), "auto_pad")});
  else
    attrs.push_back({"pads", pads});
  return attrs;
}

/// Drops a window that may have been computed in excess.
Term without_more(Builder& build, const Term& y, const Shape& shape) {
  if (build.type(y.value()).shape == shape) return y;
  const Dims ends = bounds(shape);
  const ValueId cut = build.op(OpKind::Slice, {y.value()},
                               {{"ends", ends}, {"starts", Dims(ends.size(), 0)}, {"steps", Dims(ends.size(), 1)}});
  return {build, build.with_lengths(cut, shape)};
}

std::vector<ValueId> decompose_lp_pool(Builder& build, const OpView& op) {
  const Window window = *window_of(op, {});
  const int64_t p = int_of(op.op(), "p");
  const DType dtype = op.type(0).dtype;
  const Shape shape = op.result_type(0).shape;
  Attrs attrs = attrs_of_mean(op, window);
  double count = 1;
  for (const WindowDim& dim : window) count *= static_cast<double>(dim.kernel);
  const Term x = powers(Term(build, op.op().inputs[0]).cast(wide(dtype)), p);
  const Term mean(build, build.op(OpKind::AveragePool, {x.value()}, std::move(attrs)));
  return {root(without_more(build, mean, shape) * count, p).cast(dtype).value()};
}

/// The derivative by the sum of powers without the factor p: y^(1 - p), and 0 if all summed powers are 0.
Term by_powers(const BackwardStep& s, int64_t p) {
  const DType dtype = wide(s.g.dtype());
  const Term y = s.out().cast(dtype);
  return (y == 0).choose(y.scalar(0), s.g.cast(dtype) * y.apply(OpKind::Pow, static_cast<double>(1 - p)));
}

/// The derivative of a power by its base without the factor p, which cancels with the root's.
Term by_base(const BackwardStep& s, const Term& by_power, int64_t p) {
  const Term x = s.in(0).cast(by_power.dtype());
  return (by_power * powers(x, p - 1) * x.apply(OpKind::Sign)).cast(s.g.dtype());
}

Derivatives gradient_of_lp_pool(const BackwardStep& s) {
  const int64_t p = int_of(s.op, "p"), channels = s.in(0).dims()[1];
  const Window window = *window_of(s.view, {});
  const Term g = by_powers(s, p);
  Dims ones{channels, 1};
  for (const WindowDim& dim : window) ones.push_back(dim.kernel);
  return {by_base(s, spread_over_windows(s.build, g, g.scalar(1).expand(ones), window, channels), p)};
}

Derivatives gradient_of_global_lp_pool(const BackwardStep& s) {
  const int64_t p = int_of(s.op, "p");
  return {by_base(s, by_powers(s, p), p)};
}

bool infer_global_lp_pool(const OpView& op, std::vector<TensorType>& results) {
  if (!has_exponent(op) || !is_real_operand(op, 0) || !has_ndim(op, 0, 3)) return false;
  TensorType type{op.type(0).dtype, op.type(0).shape, {}};
  for (int d = 2; d < type.ndim(); ++d) type.shape[d] = {1, {}};
  results = {type};
  return true;
}

std::vector<ValueId> decompose_global_lp_pool(Builder& build, const OpView& op) {
  const int64_t p = int_of(op.op(), "p");
  const int ndim = op.type(0).ndim();
  const DType dtype = op.type(0).dtype;
  const Term x = powers(Term(build, op.op().inputs[0]).cast(wide(dtype)), p);
  return {root(x.reduce(OpKind::ReduceSum, range_of(2, ndim), true), p).cast(dtype).value()};
}

OpDef lp_pool() {
  OpDef def{.kind = OpKind::LpPool,
            .name = "LpPool",
            .onnx = {"LpPool", 2},
            .attrs = window_attrs(),
            .infer = infer_lp_pool,
            .gradient = gradient_of_lp_pool,
            .decompose = decompose_lp_pool};
  def.attrs.push_back(flag("ceil_mode", 0));
  def.attrs.push_back({"p", AttrType::Int, 2});
  return def;
}

}  // namespace

const OpDef kLpPool = lp_pool();

const OpDef kGlobalLpPool{.kind = OpKind::GlobalLpPool,
                          .name = "GlobalLpPool",
                          .onnx = {"GlobalLpPool", 2},
                          .attrs = {{"p", AttrType::Int, 2}},
                          .infer = infer_global_lp_pool,
                          .gradient = gradient_of_global_lp_pool,
                          .decompose = decompose_global_lp_pool};

}  // namespace weftc

// Conv (ONNX Conv-11): x [N, C, spatial dims], weights [M, C/group, window], y [N, M, out dims]. With two or more
// spatial dimensions it stays a primitive. One spatial dimension is viewed as two, so that kernels handle planes and
// volumes only. An Add adds the bias, so that a sliced sum over channels stays legal (L4); fusion puts it back into the
// convolution's kernel.
#include "ir/ops/gradient.h"
#include "ir/ops/window.h"
#include "ir/ops/window_gradient.h"

namespace weftc {

/// The window's extents: the dims of the weights after the two channel dims.
static Dims kernel_of(const Dims& weights) { return Dims(weights.begin() + 2, weights.end()); }

std::optional<Shape> convolution_shape(const OpView& op, int filters) {
  return has_ndim(op, 0, 3) ? convolution_shape(op, filters, op.type(0).shape) : std::nullopt;
}

std::optional<Shape> convolution_shape(const OpView& op, int filters, const Shape& image) {
  if ((image[1].is_run_time() && !is_fixed(op, 0)) || !is_fixed(op, filters)) return {};
  const Dims x = bounds(image), w = op.dims(filters);
  const int64_t group = int_of(op.op(), "group");
  if (w.size() != x.size() || group < 1 || w[1] * group != x[1] || w[0] % group) {
    op.fail("conv-dims", "weights of shape {} in {} groups do not fit an input of shape {}", dims_text(w), group,
            dims_text(x));
    return {};
  }
  const std::optional<Window> window = window_of(op, kernel_of(w), x);
  return window ? windows_shape(op, *window, Extent{w[0]}, image) : std::nullopt;
}

static bool infer_conv(const OpView& op, std::vector<TensorType>& results) {
  const bool is_mixed = op.op().has("mixed");
  if (!is_mixed && !same_dtypes(op)) return false;
  const std::optional<Shape> y = convolution_shape(op, 1);
  if (!y || !has_fitting_bias(op, (*y)[1].bound)) return false;
  results = {{is_mixed ? DType::F32 : op.type(0).dtype, *y, {}}};
  return true;
}

void canonical_convolution(Op& op, const OpView& view) {
  canonical_window(op, *window_of(view, kernel_of(view.dims(1))), view.type(0).shape);
}

/// Factors: n (batch), m (filters), c (channels of the input, summed), then the spatial dims of input, weights and
/// output. Spatial dims are whole: a slice of an image would need a border of its neighbour's. With one channel a group
/// (depthwise), m and c are one factor, which passes. With other groups, filters are whole, because a slice could cut a
/// group. Factor c is a part of the channels of each group, so the image has it once for each group.
FactorRule factors_convolution(const OpView& op) {
  const Dims x = op.dims(0), w = op.dims(1), y = op.result_type(0).dims();
  const bool grouped = w[1] != x[1], depthwise = grouped && w[1] == 1 && w[0] == x[1];
  const auto channel = grouped && !depthwise ? Factor::Role::Whole : Factor::Role::Pass;
  FactorRule rule;
  rule.factors = {{x[0], Factor::Role::Pass, ReduceOp::Sum},
                  {w[0], channel, ReduceOp::Sum},
                  {w[1], depthwise ? Factor::Role::Whole : Factor::Role::Reduce, ReduceOp::Sum}};
  rule.inputs = {{0, depthwise ? 1 : 2}, {1, 2}};
  rule.outputs = {{0, 1}};
  const auto add_whole = [&](std::vector<int>& dims, const Dims& extents) {
    for (size_t d = 2; d < extents.size(); ++d) {
      dims.push_back(static_cast<int>(rule.factors.size()));
      rule.factors.push_back({extents[d], Factor::Role::Whole, ReduceOp::Sum});
    }
  };
  add_whole(rule.inputs[0], x);
  add_whole(rule.inputs[1], w);
  add_whole(rule.outputs[0], y);
  return rule;
}

void convolve(EvalContext& context, const Tensor& x, const Tensor& w, const Tensor* bias) {
  Tensor result(context.result_dtypes[0], context.result_dims[0]);
  const Window window = window_of_attrs(context.op, x.dims, result.dims);
  const Dims x_strides = strides_of(x.dims), w_strides = strides_of(w.dims), kernel = kernel_of(w.dims);
  // Local channels; a rank may have none.
  const int64_t groups = x.dims[1] ? x.dims[1] / w.dims[1] : 1, each = w.dims[0] / groups;
  for (Index at(result.dims); at.more(); at.next()) {
    double sum = bias ? bias->at(at[1]) : 0;
    const int64_t first = at[1] / each * w.dims[1];
    for (Index k(kernel); k.more(); k.next()) {
      const int64_t from = window_source(window, x_strides, at, k, 2);
      for (int64_t c = 0; c < w.dims[1] && from >= 0; ++c)
        sum += x.at(at[0] * x_strides[0] + (first + c) * x_strides[1] + from) *
               w.at(at[1] * w_strides[0] + c * w_strides[1] + k.linear());
    }
    result.put(at.linear(), sum);
  }
  context.results[0] = std::move(result);
}

static void eval_conv(EvalContext& context) {
  convolve(context, context.in(0), context.in(1), context.has(2) ? context.inputs[2] : nullptr);
}

/// Inserts a leading spatial dimension of extent 1, with a window of 1.
static Attrs as_plane(const Op& op) {
  Attrs attrs = op.attrs;
  for (Attr& attr : attrs) {
    auto* values = std::get_if<std::vector<int64_t>>(&attr.value);
    if (!values) continue;
    if (attr.name == "pads")
      *values = {0, (*values)[0], 0, (*values)[1]};
    else
      values->insert(values->begin(), 1);
  }
  return attrs;
}

/// Turns the bias into an Add, and gives a convolution with one spatial dim a second one.
static std::vector<ValueId> decompose_conv(Builder& build, const OpView& op) {
  const Op& conv = op.op();
  const Dims w = op.dims(1);
  const Shape x = op.type(0).shape, y = op.result_type(0).shape;
  const ValueId bias = op.has(2) ? conv.inputs[2] : ValueId{};
  ValueId result;
  if (x.size() == 3) {
    const ValueId plane = build.reshape_to(conv.inputs[0], {x[0], x[1], Extent{1}, x[2]});
    const ValueId weights = build.reshape(conv.inputs[1], {w[0], w[1], 1, w[2]});
    result = build.reshape_to(build.op(OpKind::Conv, {plane, weights}, as_plane(conv)), y);
  } else {
    result = build.op(OpKind::Conv, {conv.inputs[0], conv.inputs[1]}, conv.attrs);
  }
  if (!bias) return {result};
  Dims channels(y.size() - 1, 1);
  channels[0] = w[0];
  return {build.op(OpKind::Add, {result, build.reshape(bias, channels)})};
}

static Derivatives gradient_of_conv(const BackwardStep& s) {
  const Term x = s.in(0), w = s.in(1);
  const int64_t group = int_of(s.op, "group");
  const Window window = window_of_attrs(s.op, x.dims(), s.g.dims());
  return {spread_over_windows(s.build, s.g, w, window, group),
          gradient_of_filters(s.build, x, s.g, window, group).reshape(w.dims())};
}

static OpDef conv() {
  OpDef def{.kind = OpKind::Conv,
            .name = "Conv",
            .onnx = {"Conv"},
            .attrs = window_attrs(),
            .inputs = {2, 3},
            .category = Category::Contraction,
            .infer = infer_conv,
            .canonicalize = canonical_convolution,
            .factors = factors_convolution,
            .linear = {{0}, {1}},
            .gradient = gradient_of_conv,
            .eval = eval_conv,
            .decompose = decompose_conv,
            .is_primitive = [](const OpView& op) { return !op.has(2) && op.type(0).ndim() > 3; }};
  def.attrs.push_back({"group", AttrType::Int, 1});
  def.attrs.push_back({"mixed", AttrType::Int, {}, false, true});  // as for MatMul
  return def;
}

/// Canonical: kernel_shape, strides, dilations and pads (all befores first) complete. Two or more spatial dimensions.
const OpDef kConv = conv();

}  // namespace weftc

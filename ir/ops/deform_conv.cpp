// DeformConv (ONNX DeformConv-22): a convolution whose window elements are moved by computed offsets. The windows of
// all outputs are sampled (sampling.h), which gives columns, and the weights are multiplied by them:
//
//   columns[n, c, k, o] = mask[n, k, o] * x[n, c] at (o * stride - pad + k * dilation + offset[n, k, o])
//   y[n, m, o]          = sum over c, k of w[m, c, k] * columns[n, c, k, o]  +  bias[m]

#include "ir/ops/sampling.h"
#include "ir/ops/window.h"

namespace weftc {

namespace {

Dims kernel_of(const Dims& weights) { return Dims(weights.begin() + 2, weights.end()); }

/// Offsets [N, offset groups * window * spatial dims, out dims], mask [N, offset groups * window, out dims].
bool offsets_fit(const OpView& op, const Window& window) {
  const Dims x = op.dims(0), kernel = kernel_of(op.dims(1));
  const int64_t groups = int_of(op.op(), "offset_group"), each = element_count(kernel);
  Dims expected{x[0], groups * each};
  for (const WindowDim& dim : window) expected.push_back(dim.out);
  if (op.has(4) && op.dims(4) != expected)
    return op.fail("deform-conv-mask", "a mask of shape {} does not fit, {} is needed", dims_text(op.dims(4)),
                   dims_text(expected));
  expected[1] *= static_cast<int64_t>(kernel.size());
  if (op.dims(2) != expected)
    return op.fail("deform-conv-offset", "offsets of shape {} do not fit, {} is needed", dims_text(op.dims(2)),
                   dims_text(expected));
  return true;
}

/// x [N, C, spatial dims], weights [M, C/group, window], offsets, bias [M], mask.
bool infer_deform_conv(const OpView& op, std::vector<TensorType>& results) {
  if (!same_dtypes(op) || !is_real_operand(op, 0) || !has_ndim(op, 0, 3)) return false;
  for (int i = 0; i < op.inputs(); ++i)
    if (op.has(i) && !is_fixed(op, i)) return false;
  const Dims x = op.dims(0), w = op.dims(1);
  const int64_t group = int_of(op.op(), "group"), offsets = int_of(op.op(), "offset_group");
  if (w.size() != x.size() || group < 1 || w[1] * group != x[1] || w[0] % group || offsets < 1 || x[1] % offsets)
    return op.fail("deform-conv-dims",
                   "weights of shape {} in {} groups and {} groups of offsets do not fit an input of shape {}",
                   dims_text(w), group, offsets, dims_text(x));
  if (op.has(3) && op.dims(3) != Dims{w[0]})
    return op.fail("conv-bias", "a bias of shape {} does not fit {} channels", dims_text(op.dims(3)), w[0]);
  const std::optional<Window> window = window_of(op, kernel_of(w));
  if (!window || !offsets_fit(op, *window)) return false;
  Dims y{x[0], w[0]};
  for (const WindowDim& dim : *window) y.push_back(dim.out);
  results = {{op.type(0).dtype, shape_of(y), {}}};
  return true;
}

/// The elements read by all windows: [N, C, window, out dims], with the window as one dimension and the out dims as
/// one.
Term columns(Builder& build, const OpView& view, const Window& window) {
  const Op& op = view.op();
  const Dims dims = view.dims(0);
  const auto ndim = static_cast<int64_t>(window.size());
  const int64_t groups = int_of(op, "offset_group");
  Dims kernel, out;
  for (const WindowDim& dim : window) {
    kernel.push_back(dim.kernel);
    out.push_back(dim.out);
  }
  // Everything below has the dims [N, offset groups, channels of one, window dims, out dims].
  const auto shaped = [&](Dims front) {
    front.insert(front.end(), kernel.begin(), kernel.end());
    front.insert(front.end(), out.begin(), out.end());
    return front;
  };
  const int all = static_cast<int>(3 + 2 * ndim);
  const DType dtype = wide(view.type(0).dtype);
  Dims split{dims[0], groups, element_count(kernel), ndim};
  split.insert(split.end(), out.begin(), out.end());
  const Term offsets = Term(build, op.inputs[2]).cast(dtype).reshape(split);
  SampleTaps taps;
  for (int64_t d = 0; d < ndim; ++d) {
    const WindowDim& dim = window[d];
    const Term base =
        positions(build, dtype, dim.kernel, static_cast<int>(3 + d), all, static_cast<double>(dim.dilation),
                  -static_cast<double>(dim.before)) +
        positions(build, dtype, dim.out, static_cast<int>(3 + ndim + d), all, static_cast<double>(dim.stride));
    const Term offset = offsets.slice(3, d, d + 1).reshape(shaped({dims[0], groups, 1}));
    taps.push_back(linear_taps(build, offset + base, Extent{dim.in}));
  }
  Dims images(all, 1);
  images[0] = dims[0], images[1] = groups, images[2] = dims[1] / groups;
  const Term image = image_positions(build, shape_of(dims), 2).reshape(images);
  Term columns = sample_sum(build, Term(build, op.inputs[0]).cast(dtype), image, taps);
  if (view.has(4)) columns = columns * Term(build, op.inputs[4]).cast(dtype).reshape(shaped({dims[0], groups, 1}));
  return columns.reshape({dims[0], dims[1], element_count(kernel), element_count(out)});
}

std::vector<ValueId> decompose_deform_conv(Builder& build, const OpView& op) {
  const Op& conv = op.op();
  const Dims w = op.dims(1), y = op.result_type(0).dims();
  const DType dtype = op.type(0).dtype;
  const bool has_bias = op.has(3);
  const Window window = *window_of(op, kernel_of(w));
  const int64_t group = int_of(conv, "group"), depth = element_count(Dims(w.begin() + 1, w.end()));
  const Term cols = columns(build, op, window);
  const Term weights = Term(build, conv.inputs[1]).cast(cols.dtype()).reshape({1, group, w[0] / group, depth});
  Term result = product(weights, cols.reshape({y[0], group, depth, cols.dims()[3]})).reshape(y);
  if (has_bias) {
    Dims channels(y.size() - 1, 1);
    channels[0] = w[0];
    result = result + Term(build, conv.inputs[3]).cast(cols.dtype()).reshape(channels);
  }
  return {result.cast(dtype).value()};
}

OpDef deform_conv() {
  OpDef def{.kind = OpKind::DeformConv,
            .name = "DeformConv",
            .onnx = {"DeformConv", 19},
            .attrs = window_attrs(),
            .inputs = {3, 5},
            .infer = infer_deform_conv,
            .decompose = decompose_deform_conv};
  def.attrs.push_back({"group", AttrType::Int, 1});
  def.attrs.push_back({"offset_group", AttrType::Int, 1});
  return def;
}

}  // namespace

const OpDef kDeformConv = deform_conv();

}  // namespace weftc

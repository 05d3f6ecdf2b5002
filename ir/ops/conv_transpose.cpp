// ConvTranspose as a convolution: the input is spread out by the strides, the window mirrored, its channels
// swapped.
//
//   ConvTranspose(x, w), stride 2, one spatial dim:
//     x = a b c        spread:  a 0 b 0 c 0        padded by reach - 1 - before, behind so that `out` elements come out
//     w[C, M/g, k]     mirrored: w[M, C/g, k-1-k']  then Conv(padded x, mirrored w) with stride 1
//
// The products with the inserted zeros are wasted: a ConvTranspose of stride s computes s times as much as
// needed for each spatial dim. That is accepted, because one kernel of convolutions then serves both ops.
#include <algorithm>

#include "ir/ops/window.h"

namespace weftc {

namespace {

/// Window, output extents and pads; nothing after reporting. ConvTranspose-11: out = (in - 1) * stride + reach
/// + output_padding - pads; with output_shape or SAME_* the pads follow from the extent asked for instead
/// (SAME: in * stride).
std::optional<Window> transposed_window(const OpView& op) {
  const Dims x = op.dims(0), w = op.dims(1);
  const size_t ndim = x.size() - 2;
  const auto value = [&](const char* attr, size_t at, int64_t otherwise) {
    const std::vector<int64_t> values = ints_of(op.op(), attr);
    return at < values.size() ? values[at] : otherwise;
  };
  const std::string& mode = text_of(op.op(), "auto_pad");
  Window window;
  for (size_t d = 0; d < ndim; ++d) {
    WindowDim dim{w[d + 2],
                  value("strides", d, 1),
                  value("dilations", d, 1),
                  value("pads", d, 0),
                  value("pads", ndim + d, 0),
                  x[d + 2],
                  0};
    if (dim.stride < 1 || dim.dilation < 1)
      return op.fail("conv-transpose-window", "strides and dilations must be at least 1"), std::nullopt;
    const int64_t all = (dim.in - 1) * dim.stride + dim.reach() + value("output_padding", d, 0);
    const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (op.op().has("output_shape") || same) {
      const std::vector<int64_t> shape = ints_of(op.op(), "output_shape");
      if (!shape.empty() && shape.size() < ndim)
        return op.fail("conv-transpose-output-shape", "output_shape has {} entries, there are {} spatial dimensions",
                       shape.size(), ndim),
               std::nullopt;
      dim.out = shape.empty() ? dim.in * dim.stride : shape[shape.size() - ndim + d];
      const int64_t total = std::max<int64_t>(0, all - dim.out);
      dim.before = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      dim.behind = all - dim.out - dim.before;
    } else {
      if (mode == "VALID") dim.before = dim.behind = 0;
      dim.out = all - dim.before - dim.behind;
    }
    if (dim.out < 1)
      return op.fail("conv-transpose-extent", "spatial dimension {} would have extent {}", d, dim.out), std::nullopt;
    window.push_back(dim);
  }
  return window;
}

/// The shape of the result; nothing after reporting. A length that only a run knows stays a polynomial: the pads do not
/// depend on it, unless an output_shape decides them.
std::optional<Shape> transposed_shape(const OpView& op, const Window& window) {
  Shape y{op.type(0).shape[0], Extent{op.dims(1)[1] * int_of(op.op(), "group")}};
  for (size_t d = 0; d < window.size(); ++d) {
    const Extent& in = op.type(0).shape[d + 2];
    if (in.is_run_time() && op.op().has("output_shape") && !is_fixed(op, 0)) return {};
    const int64_t more = window[d].out - window[d].in * window[d].stride;
    y.push_back(op.extent(maximum(length_of(in) * window[d].stride + more, 0)));
    y.back().bound = window[d].out;
  }
  return y;
}

/// x [N, C, spatial dims], w [C, M/group, window], bias [M]; y [N, M, out dims].
bool infer_conv_transpose(const OpView& op, std::vector<TensorType>& results) {
  if (!same_dtypes(op) || !has_ndim(op, 0, 3) || !is_fixed_dim(op, 0, 1) || !is_fixed(op, 1)) return false;
  const Dims x = op.dims(0), w = op.dims(1);
  const int64_t group = int_of(op.op(), "group");
  if (w.size() != x.size() || group < 1 || w[0] != x[1] || x[1] % group || element_count(w) == 0)
    return op.fail("conv-transpose-dims", "weights of shape {} in {} groups do not fit an input of shape {}",
                   dims_text(w), group, dims_text(x));
  if (!has_fitting_bias(op, w[1] * group)) return false;
  const std::optional<Window> window = transposed_window(op);
  const std::optional<Shape> y = window ? transposed_shape(op, *window) : std::nullopt;
  if (!y) return false;
  results = {{op.type(0).dtype, *y, {}}};
  return true;
}

/// stride - 1 zeros behind each element: each spatial dim gets a dim of that many behind it, padded and merged.
ValueId spread(Builder& build, const OpView& op, const Window& window) {
  const ValueId x = op.op().inputs[0];
  const Shape from = op.type(0).shape;
  if (std::all_of(window.begin(), window.end(), [](const WindowDim& dim) { return dim.stride == 1; })) return x;
  Shape split{from[0], from[1]}, merged = split;
  std::vector<int64_t> before(2, 0), behind(2, 0);
  for (size_t d = 0; d < window.size(); ++d) {
    const Extent& in = from[d + 2];
    split.insert(split.end(), {in, Extent{1}});
    before.insert(before.end(), {0, 0});
    behind.insert(behind.end(), {0, window[d].stride - 1});
    merged.push_back(op.extent(length_of(in) * window[d].stride));
    merged.back().bound = in.bound * window[d].stride;
  }
  before.insert(before.end(), behind.begin(), behind.end());
  return build.reshape_to(build.op(OpKind::Pad, {build.reshape_to(x, split)}, {{"pads", before}}), merged);
}

/// C, M/g, window -> M, C/g, mirrored window.
ValueId mirrored(Builder& build, ValueId weights, int64_t group) {
  const Dims w = build.dims(weights);
  Dims grouped{group, w[0] / group, w[1]}, result{w[1] * group, w[0] / group};
  grouped.insert(grouped.end(), w.begin() + 2, w.end());
  result.insert(result.end(), w.begin() + 2, w.end());
  std::vector<int64_t> perm = range_of(0, static_cast<int64_t>(grouped.size()));
  std::swap(perm[1], perm[2]);
  const ValueId swapped = build.reshape(build.transpose(build.reshape(weights, grouped), perm), result);
  Dims starts(result.size(), 0), ends = result, steps(result.size(), 1);
  for (size_t d = 2; d < result.size(); ++d) {
    starts[d] = result[d] - 1;
    ends[d] = INT64_MIN;
    steps[d] = -1;
  }
  return build.op(OpKind::Slice, {swapped}, {{"ends", ends}, {"starts", starts}, {"steps", steps}});
}

/// Spreads, pads and mirrors, then a Conv of stride 1 whose pads are already in its operand.
std::vector<ValueId> decompose_conv_transpose(Builder& build, const OpView& op) {
  const Op& conv = op.op();
  const Window window = *transposed_window(op);
  const int64_t group = int_of(conv, "group");
  const size_t ndim = window.size() + 2;
  ValueId x = spread(build, op, window);
  const ValueId weights = mirrored(build, conv.inputs[1], group);
  // Pads of the convolution; negative ones (pads larger than the window reaches) cut.
  std::vector<int64_t> pads(2 * ndim, 0), dilations;
  for (size_t d = 0; d < window.size(); ++d) {
    pads[2 + d] = window[d].reach() - 1 - window[d].before;
    pads[ndim + 2 + d] = window[d].out + window[d].reach() - 1 - pads[2 + d] - window[d].in * window[d].stride;
    dilations.push_back(window[d].dilation);
  }
  x = build.op(OpKind::Pad, {x}, {{"pads", pads}});
  std::vector<ValueId> operands{x, weights};
  if (op.has(2)) operands.push_back(conv.inputs[2]);
  return {build.op(OpKind::Conv, operands, {{"dilations", dilations}, {"group", group}})};
}

OpDef conv_transpose() {
  OpDef def{.kind = OpKind::ConvTranspose,
            .name = "ConvTranspose",
            .onnx = {"ConvTranspose"},
            .attrs = window_attrs(),
            .inputs = {2, 3},
            .infer = infer_conv_transpose,
            .decompose = decompose_conv_transpose};
  def.attrs.push_back({"group", AttrType::Int, 1});
  def.attrs.push_back({"output_padding", AttrType::Ints});
  def.attrs.push_back({"output_shape", AttrType::Ints});
  return def;
}

}  // namespace

const OpDef kConvTranspose = conv_transpose();

}  // namespace weftc

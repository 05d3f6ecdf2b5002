// ConvTranspose as a convolution for each phase of its stride. All phases are filters of one Conv:
//
//   ConvTranspose(x, w), stride 2, window of 3, one spatial dim: element o of the result (pads still on) is
//     o = 2 q      x[q] w[0] + x[q - 1] w[2]
//     o = 2 q + 1  x[q] w[1]                      (w[3] is a zero)
//   w[C, M/g, 3]  ->  padded to a multiple of the stride, taken apart into taps and phases, taps mirrored:
//                     filters [2 * M, C/g, 2]
//   Conv(padded x, filters)[N, 2 * M, Q]  ->  [N, 2, M, Q]  ->  [N, M, Q, 2]  ->  [N, M, 2 Q], pads cut off
//
// All channels of a phase are adjacent, as in an image with innermost channels. A dilated window has no such phases:
// the input is then spread out by the stride, x0 0 x1 0 x2 0, and there is one phase.
#include <algorithm>

#include "ir/base/checked.h"
#include "ir/ops/window.h"

namespace weftc {

namespace {

/// Window, output extents and pads; nothing after reporting. ConvTranspose-11: out = (in - 1) * stride + reach +
/// output_padding - pads. With output_shape or SAME_* the pads follow from the requested extent (SAME: in * stride).
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
    const int64_t padding = value("output_padding", d, 0);
    const auto is_countable = [](std::optional<int64_t> number) { return number && std::abs(*number) <= kMostExtent; };
    if (!is_countable(checked_product(dim.in, dim.stride)) ||
        !is_countable(checked_product(dim.kernel, dim.dilation)) || !is_countable(padding) ||
        !is_countable(dim.before) || !is_countable(dim.after))
      return op.fail("conv-transpose-reach", "spatial dimension {} would have more than 2^40 elements", d),
             std::nullopt;
    const int64_t all = (dim.in - 1) * dim.stride + dim.reach() + padding;
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
      dim.after = all - dim.out - dim.before;
    } else {
      if (mode == "VALID") dim.before = dim.after = 0;
      dim.out = all - dim.before - dim.after;
    }
    if (dim.out < 1)
      return op.fail("conv-transpose-extent", "spatial dimension {} would have extent {}", d, dim.out), std::nullopt;
    window.push_back(dim);
  }
  return window;
}

/// The shape of the result; nothing after reporting. A run-time length stays a polynomial, because the pads do not
/// depend on it, unless an output_shape determines them.
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

/// How one spatial dim is computed. The spread-out input has `in` elements. Windows of `taps` elements, `dilation`
/// apart, are applied at `out` places. Each place gives `phases` neighbouring elements. The first `cut` of all elements
/// and some of the last are dropped.
struct PhaseDim {
  int64_t phases, spread, taps, dilation, in, out, cut;
  int64_t pad_before, pad_after;
};

PhaseDim phase_dim(const WindowDim& dim) {
  PhaseDim made{};
  made.phases = dim.dilation == 1 ? dim.stride : 1;
  made.spread = dim.stride / made.phases;
  made.taps = (dim.kernel + made.phases - 1) / made.phases;
  made.dilation = dim.dilation;
  made.in = dim.in * made.spread;
  const auto floor_of = [&](int64_t n) { return n >= 0 ? n / made.phases : -((-n + made.phases - 1) / made.phases); };
  const int64_t first = floor_of(dim.before), reach = (made.taps - 1) * made.dilation;
  made.out = -floor_of(-(dim.before + dim.out)) - first;
  made.cut = dim.before - first * made.phases;
  made.pad_before = reach - first;
  made.pad_after = made.out + reach - made.in - made.pad_before;
  return made;
}

/// Inserts spread - 1 zeros after each element: each spatial dim gets a new inner dim of extent 1, which is padded and
/// merged.
ValueId spread(Builder& build, const OpView& op, const std::vector<PhaseDim>& dims) {
  const ValueId x = op.op().inputs[0];
  const Shape from = op.type(0).shape;
  if (std::all_of(dims.begin(), dims.end(), [](const PhaseDim& dim) { return dim.spread == 1; })) return x;
  Shape split{from[0], from[1]}, merged = split;
  std::vector<int64_t> before(2, 0), after(2, 0);
  for (size_t d = 0; d < dims.size(); ++d) {
    const Extent& in = from[d + 2];
    split.insert(split.end(), {in, Extent{1}});
    before.insert(before.end(), {0, 0});
    after.insert(after.end(), {0, dims[d].spread - 1});
    merged.push_back(op.extent(length_of(in) * dims[d].spread));
    merged.back().bound = dims[d].in;
  }
  before.insert(before.end(), after.begin(), after.end());
  return build.reshape_to(build.op(OpKind::Pad, {build.reshape_to(x, split)}, {{"pads", before}}), merged);
}

/// Pads the spatial dims with zeros; negative numbers cut elements off.
ValueId padded(Builder& build, ValueId x, const std::vector<int64_t>& before, const std::vector<int64_t>& after) {
  const auto is_zero = [](int64_t pad) { return pad == 0; };
  if (std::all_of(before.begin(), before.end(), is_zero) && std::all_of(after.begin(), after.end(), is_zero)) return x;
  std::vector<int64_t> pads(2, 0);
  pads.insert(pads.end(), before.begin(), before.end());
  pads.insert(pads.end(), 2, 0);
  pads.insert(pads.end(), after.begin(), after.end());
  return build.op(OpKind::Pad, {x}, {{"pads", pads}});
}

/// C, M/g, window -> phases * M, C/g, mirrored taps.
ValueId phase_filters(Builder& build, const OpView& op, const std::vector<PhaseDim>& dims) {
  const Dims w = op.dims(1);
  const int64_t group = int_of(op.op(), "group");
  const size_t spatial = dims.size();
  std::vector<int64_t> after;
  Dims apart{group, w[0] / group, w[1]}, filters{w[1] * group, w[0] / group};
  std::vector<int64_t> order{0}, taps;  // g, phases, M/g, C/g, taps
  for (size_t d = 0; d < spatial; ++d) {
    after.push_back(dims[d].taps * dims[d].phases - w[d + 2]);
    apart.insert(apart.end(), {dims[d].taps, dims[d].phases});
    filters[0] *= dims[d].phases;
    filters.push_back(dims[d].taps);
    taps.push_back(static_cast<int64_t>(3 + 2 * d));
    order.push_back(taps.back() + 1);
  }
  order.insert(order.end(), {2, 1});
  order.insert(order.end(), taps.begin(), taps.end());
  const ValueId whole = padded(build, op.op().inputs[1], std::vector<int64_t>(spatial, 0), after);
  const ValueId turned = build.reshape(build.transpose(build.reshape(whole, apart), order), filters);
  Dims starts(filters.size(), 0), ends = filters, steps(filters.size(), 1);
  for (size_t d = 2; d < filters.size(); ++d) {
    starts[d] = filters[d] - 1;
    ends[d] = INT64_MIN;
    steps[d] = -1;
  }
  return build.op(OpKind::Slice, {turned}, {{"ends", ends}, {"starts", starts}, {"steps", steps}});
}

/// N, phases * M, Q, ... -> N, M, Q * phases, ... without the elements that are not in the result.
ValueId interleaved(Builder& build, const OpView& op, ValueId y, const std::vector<PhaseDim>& dims) {
  const Shape result = op.result_type(0).shape, rows = build.type(y).shape;
  if (std::all_of(dims.begin(), dims.end(), [](const PhaseDim& dim) { return dim.phases == 1; })) return y;
  const int64_t spatial = static_cast<int64_t>(dims.size()), group = int_of(op.op(), "group");
  Shape merged{rows[0], result[1]}, apart{rows[0], Extent{group}};
  std::vector<int64_t> order{0, 1, 2 + spatial}, before, after;
  for (const PhaseDim& dim : dims) apart.push_back(Extent{dim.phases});
  apart.push_back(Extent{result[1].bound / group});
  for (int64_t d = 0; d < spatial; ++d) {
    const PhaseDim& dim = dims[static_cast<size_t>(d)];
    const Extent& row = rows[static_cast<size_t>(d) + 2];
    apart.push_back(row);
    order.insert(order.end(), {3 + spatial + d, 2 + d});
    merged.push_back(op.extent(length_of(row) * dim.phases));
    merged.back().bound = row.bound * dim.phases;
    before.push_back(-dim.cut);
    after.push_back(result[static_cast<size_t>(d) + 2].bound + dim.cut - dim.out * dim.phases);
  }
  return padded(build, build.reshape_to(build.transpose(build.reshape_to(y, apart), order), merged), before, after);
}

/// A bias for each filter, repeated within each group for each of its phases.
ValueId repeated(Builder& build, ValueId bias, int64_t group, int64_t filters) {
  const int64_t channels = build.dims(bias)[0];
  if (filters == channels) return bias;
  const ValueId wide = build.op(OpKind::Expand, {build.reshape(bias, {group, 1, channels / group})},
                                {{"shape", Dims{group, filters / channels, channels / group}}});
  return build.reshape(wide, {filters});
}

/// Pads, then a Conv of stride 1 without pads of its own, then interleaves its phases.
std::vector<ValueId> decompose_conv_transpose(Builder& build, const OpView& op) {
  const Op& conv = op.op();
  std::vector<PhaseDim> dims;
  std::vector<int64_t> before, after, dilations;
  const Window window = *transposed_window(op);
  for (const WindowDim& dim : window) {
    dims.push_back(phase_dim(dim));
    before.push_back(dims.back().pad_before);
    after.push_back(dims.back().pad_after);
    dilations.push_back(dims.back().dilation);
  }
  const ValueId filters = phase_filters(build, op, dims);
  std::vector<ValueId> operands{padded(build, spread(build, op, dims), before, after), filters};
  const int64_t group = int_of(conv, "group");
  if (op.has(2)) operands.push_back(repeated(build, conv.inputs[2], group, build.dims(filters)[0]));
  const ValueId y = build.op(OpKind::Conv, operands, {{"dilations", dilations}, {"group", group}});
  return {interleaved(build, op, y, dims)};
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

// Reads window attributes, with ONNX's default for each missing one.
#include "ir/kernel/window_geometry.h"

#include "ir/ops/window.h"

namespace weftc {

IndexDims padding_before(const KernelBody& body, const Op& op) {
  const Shape& image = body.body.type(op.inputs[0]).shape;
  IndexDims before(std::vector<int64_t>(image.size() - 2, 0));
  if (!pads_by_length(op) && ints_of(op, "pads").empty()) return before;
  for (size_t d = 0; d < before.size(); ++d) before[d] = body.scale_of(padding_before(op, d, length_of(image[d + 2])));
  return before;
}

std::optional<WindowGeometry> window_geometry(const KernelBody& body, ValueId root) {
  const Op& op = body.body.producer_op(root);
  const Dims x = body.dims(op.inputs[0]), y = body.dims(root);
  const bool conv = op.kind == OpKind::Conv || op.kind == OpKind::ConvInteger;
  Dims w = conv ? body.dims(op.inputs[1]) : op.ints("kernel_shape");
  if (!conv) w.insert(w.begin(), {x[1], 1});  // one filter of one channel for each
  const size_t spatial = w.size() - 2;
  if (w.size() < 3 || spatial > 3 || op.inputs.size() > 2 || element_count(x) == 0 || element_count(y) == 0) return {};
  const auto ints = [&](const char* name, int64_t otherwise, size_t count) {
    return op.has(name) && !op.ints(name).empty() ? op.ints(name) : std::vector<int64_t>(count, otherwise);
  };
  const std::vector<int64_t> strides = ints("strides", 1, spatial), dilations = ints("dilations", 1, spatial);
  const IndexDims from = body.extents(op.inputs[0]), to = body.extents(root);
  WindowGeometry g{};
  g.in.assign(from.begin() + 2, from.end()), g.out.assign(to.begin() + 2, to.end());
  g.window.assign(w.begin() + 2, w.end());
  g.stride = strides, g.dilation = dilations, g.before = padding_before(body, op);
  g.batch = from[0], g.channels = w[1], g.groups = x[1] / w[1], g.filters = w[0] / g.groups;
  g.taps = element_count(g.window), g.inputs = g.in.count(), g.outputs = g.out.count();
  if (conv) g.run_channels = body.run_extent_of(body.body.type(op.inputs[1]), 1);
  g.plain = g.taps == 1 && g.in == g.out && element_count(strides) == 1;
  return g;
}

WindowGeometry channels_as_taps(WindowGeometry g) {
  if (g.channels == 1) return g;
  g.in.insert(g.in.begin(), g.channels), g.out.insert(g.out.begin(), 1);
  g.window.insert(g.window.begin(), g.channels);
  g.stride.insert(g.stride.begin(), 1), g.dilation.insert(g.dilation.begin(), 1), g.before.insert(g.before.begin(), 0);
  g.taps *= g.channels, g.inputs = g.in.count(), g.channels = 1;
  return g;
}

ChannelPath channel_path(const WindowGeometry& g) {
  constexpr int64_t kMostTaps = 7, kMostStep = 4, kPanel = 16, kFewOutputs = 1024;
  constexpr int64_t kMostTerms = 2048;  // more than a tile adds up without losing digits
  if (g.groups < kPanel) return ChannelPath::AnyWindow;
  if (g.window.back() > kMostTaps)
    return g.outputs.is_number() && g.outputs.number <= kFewOutputs ? ChannelPath::LargeWindows
                                                                    : ChannelPath::AnyWindow;
  const bool has_tiles = g.stride.back() <= kMostStep && g.dilation.back() <= kMostStep && g.taps <= kMostTerms;
  return has_tiles ? ChannelPath::TapRow : ChannelPath::AnyWindow;
}

}  // namespace weftc

#include "backend/window_geometry.h"

namespace weftc {

/// Three numbers of spatial dimensions as text, `fill` where there are fewer.
static std::string triple(const std::vector<int64_t>& numbers, int64_t fill) {
  std::vector<std::string> texts;
  for (size_t d = numbers.size(); d < 3; ++d) texts.push_back(std::to_string(fill));
  for (int64_t n : numbers) texts.push_back(std::to_string(n));
  return "{" + join(texts, ", ") + "}";
}

std::optional<WindowGeometry> window_geometry(const KernelContext& context, ValueId root) {
  const Op& op = context.body.producer_op(root);
  const Dims x = context.dims(op.inputs[0]), y = context.dims(root);
  const bool conv = op.kind == OpKind::Conv;
  Dims w = conv ? context.dims(op.inputs[1]) : op.ints("kernel_shape");
  if (!conv) w.insert(w.begin(), {x[1], 1});  // one filter of one channel for each
  const size_t spatial = w.size() - 2;
  if (w.size() < 3 || spatial > 3 || op.inputs.size() > 2 || element_count(x) == 0 || element_count(y) == 0) return {};
  const auto ints = [&](const char* name, int64_t otherwise, size_t count) {
    return op.has(name) && !op.ints(name).empty() ? op.ints(name) : std::vector<int64_t>(count, otherwise);
  };
  const std::vector<int64_t> strides = ints("strides", 1, spatial), dilations = ints("dilations", 1, spatial);
  const std::vector<int64_t> pads = ints("pads", 0, 2 * spatial),
                             before(pads.begin(), pads.begin() + static_cast<long>(spatial));
  const Dims in(x.begin() + 2, x.end()), taps(w.begin() + 2, w.end());
  WindowGeometry g{};
  g.out.assign(y.begin() + 2, y.end());
  g.batch = x[0], g.channels = w[1], g.groups = x[1] / w[1], g.filters = w[0] / g.groups;
  g.taps = element_count(taps), g.inputs = element_count(in), g.outputs = element_count(g.out);
  g.plain = g.taps == 1 && in == g.out && element_count(strides) == 1;
  g.text = "constexpr weft::SlidingWindow window{.in = " + triple(in, 1) + ", .out = " + triple(g.out, 1) +
           ", .taps = " + triple(taps, 1) + ", .stride = " + triple(strides, 1) +
           ", .dilation = " + triple(dilations, 1) + ", .pad = " + triple(before, 0) + "};";
  return g;
}

}  // namespace weftc

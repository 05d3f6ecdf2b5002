// Pads, strides and output extents of windows, as ONNX Conv and the pools define them: auto_pad, ceil_mode and
// the attributes become one WindowDim for each spatial dimension.
#include "ir/ops/window.h"

#include <algorithm>

#include "ir/base/checked.h"

namespace weftc {

/// Each attribute has an entry for each spatial dimension (pads: two), in its range.
static bool check_lengths(const OpView& op, size_t ndim) {
  for (const char* attr : {"kernel_shape", "strides", "dilations", "pads"}) {
    const std::vector<int64_t> values = ints_of(op.op(), attr);
    const size_t expected = std::string_view(attr) == "pads" ? 2 * ndim : ndim;
    if (!values.empty() && values.size() != expected)
      return op.fail("window-lengths", "'{}' has {} entries for {} spatial dimensions", attr, values.size(), ndim);
    const int64_t least = std::string_view(attr) == "pads" ? 0 : 1;
    if (std::any_of(values.begin(), values.end(), [&](int64_t v) { return v < least || v > kMostExtent; }))
      return op.fail("window-values", "'{}' is {}, entries must be at least {} and at most 2^40", attr,
                     dims_text(values), least);
  }
  return true;
}

/// True if a window spans no more elements than a tensor may have.
static bool has_countable_reach(const WindowDim& dim) {
  const std::optional<int64_t> gaps = checked_product(dim.kernel - 1, dim.dilation);
  return gaps && *gaps < kMostExtent;
}

/// SAME: as many outputs as ceil(in / stride), the odd pad element behind (UPPER) or before (LOWER).
static void pad_same(WindowDim& dim, bool upper) {
  dim.out = (dim.in + dim.stride - 1) / dim.stride;
  const int64_t total = std::max<int64_t>(0, (dim.out - 1) * dim.stride + dim.reach() - dim.in);
  dim.before = upper ? total / 2 : total - total / 2;
  dim.behind = total - dim.before;
}

/// What is added to the extent of an input for the quotient by the stride to be the number of windows.
static int64_t added_extent(const WindowDim& dim, bool ceil) {
  return dim.before + dim.behind - dim.reach() + (ceil ? 2 * dim.stride - 1 : dim.stride);
}

/// As many windows as fit into the padded extent; ceil_mode adds one that sticks out, if it begins inside.
static void count_outputs(WindowDim& dim, bool ceil) {
  dim.out = std::max<int64_t>(0, dim.in + added_extent(dim, ceil)) / dim.stride;
  // A window that would start in the padding behind is left out.
  if (ceil && dim.out > 0 && (dim.out - 1) * dim.stride >= dim.in + dim.before) --dim.out;
}

static bool is_same(const std::string& auto_pad) { return auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER"; }
static bool rounds_up(const Op& op) { return op.has("ceil_mode") && op.integer("ceil_mode"); }

std::optional<Window> window_of(const OpView& op, const Dims& kernel) { return window_of(op, kernel, op.dims(0)); }

std::optional<Window> window_of(const OpView& op, const Dims& kernel, const Dims& in) {
  const size_t ndim = in.size() - 2;
  if (!check_lengths(op, ndim)) return {};
  const auto value = [&](const char* attr, size_t at, int64_t otherwise) {
    const std::vector<int64_t> values = ints_of(op.op(), attr);
    return values.empty() ? otherwise : values[at];
  };
  const std::string& mode = text_of(op.op(), "auto_pad");
  Window window;
  for (size_t d = 0; d < ndim; ++d) {
    const int64_t own = kernel.empty() ? 1 : kernel[d];
    WindowDim dim{value("kernel_shape", d, own), value("strides", d, 1), value("dilations", d, 1), 0, 0, in[d + 2], 0};
    if (dim.kernel < 1)
      return op.fail("window-empty", "a window of {} elements along spatial dimension {}", dim.kernel, d), std::nullopt;
    if (!kernel.empty() && dim.kernel != own)
      return op.fail("window-kernel", "kernel_shape has {} where the weights have {}", dim.kernel, own), std::nullopt;
    if (!has_countable_reach(dim))
      return op.fail("window-reach", "a window of {} elements that are {} apart spans more than 2^40 elements",
                     dim.kernel, dim.dilation),
             std::nullopt;
    if (mode == "NOTSET" || mode.empty()) {
      dim.before = value("pads", d, 0);
      dim.behind = value("pads", ndim + d, 0);
    }
    if (is_same(mode))
      pad_same(dim, mode == "SAME_UPPER");
    else
      count_outputs(dim, rounds_up(op.op()));
    window.push_back(dim);
  }
  return window;
}

/// How many windows an input of this length has; nothing where no polynomial says it: the pads of SAME depend on what
/// the stride leaves, and so does whether the last window of ceil_mode begins inside.
static std::optional<Length> output_length(const Op& op, const WindowDim& dim, const Length& in) {
  if (is_same(text_of(op, "auto_pad"))) return dim.stride == 1 ? std::optional(in) : std::nullopt;
  const bool ceil = rounds_up(op);
  if (ceil && dim.behind + dim.stride > dim.reach()) return {};
  return floor_quotient(maximum(in + added_extent(dim, ceil), 0), dim.stride);
}

std::optional<Shape> windows_shape(const OpView& op, const Window& window, const Extent& channels) {
  return windows_shape(op, window, channels, op.type(0).shape);
}

std::optional<Shape> windows_shape(const OpView& op, const Window& window, const Extent& channels, const Shape& image) {
  Shape y{image[0], channels};
  for (size_t d = 0; d < window.size(); ++d) {
    const Extent& in = image[d + 2];
    std::optional<Length> out = window[d].out;
    if (in.is_run_time()) out = output_length(op.op(), window[d], length_of(in));
    if (!out) {
      op.fail("window-length-unsupported",
              "how the window moves over spatial dimension {} depends on its length (by 'auto_pad' or 'ceil_mode'); "
              "pin it with --dim",
              d);
      return {};
    }
    y.push_back(op.extent(*out));
    y.back().bound = window[d].out;
  }
  return y;
}

bool has_fitting_bias(const OpView& op, int64_t channels) {
  if (!op.has(2) || op.dims(2) == Dims{channels}) return true;
  return op.fail("conv-bias", "a bias of shape {} does not fit {} channels", dims_text(op.dims(2)), channels);
}

void canonical_window(Op& op, const Window& window) {
  std::vector<int64_t> kernel, strides, dilations, pads(2 * window.size());
  for (size_t d = 0; d < window.size(); ++d) {
    kernel.push_back(window[d].kernel);
    strides.push_back(window[d].stride);
    dilations.push_back(window[d].dilation);
    pads[d] = window[d].before;
    pads[window.size() + d] = window[d].behind;
  }
  fill_defaults(op);
  op.set("auto_pad", std::string("NOTSET"));
  op.set("kernel_shape", kernel);
  op.set("strides", strides);
  op.set("dilations", dilations);
  op.set("pads", pads);
}

Window window_of_attrs(const Op& op, const Dims& in, const Dims& out) {
  const std::vector<int64_t>&kernel = op.ints("kernel_shape"), &strides = op.ints("strides"),
        &dilations = op.ints("dilations"), &pads = op.ints("pads");
  Window window;
  for (size_t d = 0; d < kernel.size(); ++d)
    window.push_back({kernel[d], strides[d], dilations[d], pads[d], pads[kernel.size() + d], in[d + 2], out[d + 2]});
  return window;
}

int64_t window_source(const Window& window, const Dims& in_strides, const Index& at, const Index& k, int first_dim) {
  int64_t from = 0;
  for (int d = 0; d < static_cast<int>(window.size()); ++d) {
    const WindowDim& dim = window[d];
    const int64_t position = at[first_dim + d] * dim.stride - dim.before + k[d] * dim.dilation;
    if (position < 0 || position >= dim.in) return -1;
    from += position * in_strides[2 + d];
  }
  return from;
}

}  // namespace weftc

// Pads, strides and output extents of windows, as ONNX Conv and the pools define them. auto_pad, ceil_mode and the
// attributes become one WindowDim for each spatial dimension.
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

static bool is_same(const std::string& auto_pad) { return auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER"; }
static bool rounds_up(const Op& op) { return op.has("ceil_mode") && op.integer("ceil_mode"); }

/// SAME: ceil(in / stride) outputs. All padding is (outputs - 1) * stride + reach - in; an odd element goes to the end
/// (UPPER) or the beginning (LOWER).
static Length same_padding(const WindowDim& dim, const Length& in) {
  return maximum(Length(dim.reach() - 1) - *remainder_of(in + (dim.stride - 1), dim.stride), 0);
}

static Length same_before(const WindowDim& dim, const Length& in, bool upper) {
  const Length all = same_padding(dim, in), half = *floor_quotient(all, 2);
  return upper ? half : all - half;
}

static void pad_same(WindowDim& dim, bool upper) {
  dim.before = same_before(dim, dim.in, upper).constant();
  dim.after = same_padding(dim, dim.in).constant() - dim.before;
}

/// The number added to an input's extent so that its quotient by the stride is the number of windows.
static int64_t added_extent(const WindowDim& dim, bool ceil) {
  return dim.before + dim.after - dim.reach() + (ceil ? 2 * dim.stride - 1 : dim.stride);
}

/// The number of windows that fit into the padded extent. ceil_mode adds a window that exceeds it, if the window begins
/// inside.
static void count_outputs(WindowDim& dim, bool ceil) {
  dim.out = std::max<int64_t>(0, dim.in + added_extent(dim, ceil)) / dim.stride;
  // A window that would start in the trailing padding is omitted.
  if (ceil && dim.out > 0 && (dim.out - 1) * dim.stride >= dim.in + dim.before) --dim.out;
}

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
      dim.after = value("pads", ndim + d, 0);
    }
    if (is_same(mode))
      pad_same(dim, mode == "SAME_UPPER"), dim.out = (dim.in + dim.stride - 1) / dim.stride;
    else
      count_outputs(dim, rounds_up(op.op()));
    window.push_back(dim);
  }
  return window;
}

/// The number of windows for an input of this length. With ceil_mode, a last window that would start in the trailing
/// padding is omitted: windows start only before that padding.
static Length output_length(const Op& op, const WindowDim& dim, const Length& in) {
  if (is_same(text_of(op, "auto_pad"))) return *floor_quotient(in + (dim.stride - 1), dim.stride);
  const bool ceil = rounds_up(op);
  const Length count = *floor_quotient(maximum(in + added_extent(dim, ceil), 0), dim.stride);
  if (!ceil || dim.after + dim.stride <= dim.reach()) return count;
  const Length starts = *floor_quotient(maximum(in + dim.before + (dim.stride - 1), 0), dim.stride);
  const Length inside = minimum(count, starts);
  return dim.after <= dim.reach() ? inside : maximum(inside, count - 1);
}

std::optional<Shape> windows_shape(const OpView& op, const Window& window, const Extent& channels) {
  return windows_shape(op, window, channels, op.type(0).shape);
}

std::optional<Shape> windows_shape(const OpView& op, const Window& window, const Extent& channels, const Shape& image) {
  Shape y{image[0], channels};
  for (size_t d = 0; d < window.size(); ++d) {
    const Extent& in = image[d + 2];
    y.push_back(in.is_run_time() ? op.extent(output_length(op.op(), window[d], length_of(in))) : Extent{});
    y.back().bound = window[d].out;
  }
  return y;
}

bool has_fitting_bias(const OpView& op, int64_t channels) {
  if (!op.has(2) || op.dims(2) == Dims{channels}) return true;
  return op.fail("conv-bias", "a bias of shape {} does not fit {} channels", dims_text(op.dims(2)), channels);
}

/// Whether the padding depends on a run-time length.
static bool has_open_pads(const Op& op, const Window& window, const Shape& image) {
  bool is_open = false;
  for (size_t d = 0; d < window.size(); ++d) is_open |= image[d + 2].is_run_time() && window[d].stride > 1;
  return is_open && is_same(text_of(op, "auto_pad"));
}

void canonical_window(Op& op, const Window& window, const Shape& image) {
  std::vector<int64_t> kernel, strides, dilations, pads(2 * window.size());
  for (size_t d = 0; d < window.size(); ++d) {
    kernel.push_back(window[d].kernel);
    strides.push_back(window[d].stride);
    dilations.push_back(window[d].dilation);
    pads[d] = window[d].before;
    pads[window.size() + d] = window[d].after;
  }
  fill_defaults(op);
  op.set("kernel_shape", kernel);
  op.set("strides", strides);
  op.set("dilations", dilations);
  if (has_open_pads(op, window, image)) return op.remove("pads");
  op.set("auto_pad", std::string("NOTSET"));
  op.set("pads", pads);
}

bool pads_by_length(const Op& op) { return is_same(text_of(op, "auto_pad")); }

Length padding_before(const Op& op, size_t d, const Length& in) {
  if (!pads_by_length(op)) return op.ints("pads")[d];
  const WindowDim dim{op.ints("kernel_shape")[d], op.ints("strides")[d], op.ints("dilations")[d], 0, 0, 0, 0};
  return same_before(dim, in, text_of(op, "auto_pad") == "SAME_UPPER");
}

Window window_of_attrs(const Op& op, const Dims& in, const Dims& out) {
  const std::vector<int64_t>&kernel = op.ints("kernel_shape"), &strides = op.ints("strides"),
        &dilations = op.ints("dilations");
  Window window;
  for (size_t d = 0; d < kernel.size(); ++d) {
    window.push_back({kernel[d], strides[d], dilations[d], 0, 0, in[d + 2], out[d + 2]});
    if (pads_by_length(op))
      pad_same(window[d], text_of(op, "auto_pad") == "SAME_UPPER");
    else
      window[d].before = op.ints("pads")[d], window[d].after = op.ints("pads")[kernel.size() + d];
  }
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

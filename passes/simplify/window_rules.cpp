// Rules that move a border before a window op into the op itself, so that the border is never written to memory. Other
// rules here cut off taps that read nothing else.
//
// A convolution skips its border, where a Pad would have multiplied zeros by weights: for an infinite weight, which
// makes those products NaN, the results differ.
#include <algorithm>
#include <limits>

#include "ir/ops/window.h"
#include "passes/simplify/rules.h"

namespace weftc {

namespace {

/// The Pad adds `value` around the spatial dimensions and cuts nothing.
bool is_spatial_border(const Match& match, double value) {
  const Op& pad = match.op("pad");
  if (pads_by_length(match.root()) || text_of(pad, "mode") != "constant" || real_of(pad, "value") != value ||
      pad.inputs.size() != 1)
    return false;
  const std::vector<int64_t>& pads = pad.ints("pads");
  const size_t ndim = pads.size() / 2;
  const auto is_zero = [&](size_t d) { return pads[d] == 0 && pads[ndim + d] == 0; };
  return is_zero(0) && is_zero(1) && std::none_of(pads.begin(), pads.end(), [](int64_t n) { return n < 0; });
}

/// The root applied to the unpadded operand, with the border added to its own pads.
Op with_border(const Match& match) {
  Op window = match.root();
  window.inputs[0] = match["x"];
  const std::vector<int64_t>& border = match.op("pad").ints("pads");
  std::vector<int64_t> pads = window.ints("pads");
  const size_t spatial = pads.size() / 2, ndim = spatial + 2;
  for (size_t d = 0; d < spatial; ++d) {
    pads[d] += border[2 + d];
    pads[spatial + d] += border[ndim + 2 + d];
  }
  window.set("pads", pads);
  return window;
}

/// `fits_root`: with ceil_mode, a last window may start in the border, where an op with own pads leaves it out.
bool is_zero_border(const Match& match) { return is_spatial_border(match, 0) && match.fits_root(with_border(match)); }

bool is_border_of_mean(const Match& match) {
  const std::vector<int64_t> own = ints_of(match.root(), "pads");
  const bool has_pads = std::any_of(own.begin(), own.end(), [](int64_t n) { return n != 0; });
  return (int_of(match.root(), "count_include_pad") || !has_pads) && is_zero_border(match);
}

bool is_border_of_maximum(const Match& match) {
  return is_float(match.type("x").dtype) && is_spatial_border(match, -std::numeric_limits<double>::infinity()) &&
         match.fits_root(with_border(match));
}

ValueId put_window(Rewriter& write, const Match& match) {
  const Op window = with_border(match);
  return write.op(window.kind, window.inputs, window.attrs);
}

ValueId put_mean(Rewriter& write, const Match& match) {
  Op window = with_border(match);
  window.set("count_include_pad", int64_t{1});
  return write.op(window.kind, window.inputs, window.attrs);
}

/// How many taps at each end of a window read only the border, in all outputs. Limited by the border, which shrinks
/// with them: a window that began inside of the image would need a negative one.
struct IdleTaps {
  int64_t before = 0, after = 0;
};

IdleTaps idle_taps(const Op& conv, size_t dim, int64_t in, int64_t out) {
  const size_t spatial = conv.ints("kernel_shape").size();
  const int64_t taps = conv.ints("kernel_shape")[dim], step = conv.ints("dilations")[dim];
  const int64_t stride = conv.ints("strides")[dim], before = conv.ints("pads")[dim];
  const auto is_read = [&](int64_t tap) {
    for (int64_t o = 0; o < out; ++o)
      if (const int64_t at = o * stride + tap * step - before; at >= 0 && at < in) return true;
    return false;
  };
  int64_t first = 0, last = taps - 1;
  while (first < taps && !is_read(first)) ++first;
  if (first == taps) return {};
  while (!is_read(last)) --last;
  const int64_t after = std::max<int64_t>(0, conv.ints("pads")[spatial + dim]);
  return {std::min(first, std::max<int64_t>(0, before) / step), std::min(taps - 1 - last, after / step)};
}

std::vector<IdleTaps> idle_taps(const Match& match) {
  std::vector<IdleTaps> idle;
  const Shape &x = match.type("x").shape, &y = match.root_type().shape;
  if (pads_by_length(match.root())) return idle;
  for (size_t d = 0; is_static(x) && d + 2 < x.size(); ++d)
    idle.push_back(idle_taps(match.root(), d, x[d + 2].bound, y[d + 2].bound));
  return idle;
}

bool has_idle_taps(const Match& match) {
  const std::vector<IdleTaps> idle = idle_taps(match);
  return std::any_of(idle.begin(), idle.end(), [](const IdleTaps& taps) { return taps.before + taps.after > 0; });
}

ValueId put_read_taps(Rewriter& write, const Match& match) {
  const std::vector<IdleTaps> idle = idle_taps(match);
  Op conv = match.root();
  Dims ends = match.type("w").dims();
  Dims starts(ends.size(), 0);
  std::vector<int64_t> window = conv.ints("kernel_shape"), pads = conv.ints("pads");
  for (size_t d = 0; d < idle.size(); ++d) {
    const int64_t step = conv.ints("dilations")[d];
    window[d] -= idle[d].before + idle[d].after;
    pads[d] -= idle[d].before * step;
    pads[idle.size() + d] -= idle[d].after * step;
    starts[d + 2] = idle[d].before;
    ends[d + 2] -= idle[d].after;
  }
  conv.inputs[1] =
      write.op(OpKind::Slice, {match["w"]}, {{"ends", ends}, {"starts", starts}, {"steps", Dims(ends.size(), 1)}});
  conv.set("kernel_shape", window);
  conv.set("pads", pads);
  return write.op(OpKind::Conv, conv.inputs, conv.attrs);
}

Pattern border() { return op(OpKind::Pad, {any("x")}).as("pad").read_once(); }

}  // namespace

std::span<const Rule> window_rules() {
  static const std::vector<Rule> rules{
      // Conv(Pad(x), w)  ->  Conv(x, w) with pads  where the border is zeros
      {"pad-into-convolution", op(OpKind::Conv, {border()}), is_zero_border, put_window},
      // Conv(x, w)  ->  Conv(x, Slice(w)) with smaller pads  where the other taps read nothing but the border
      {"conv-without-idle-taps", op(OpKind::Conv, {any("x"), any("w")}), has_idle_taps, put_read_taps},
      // AveragePool(Pad(x))  ->  AveragePool(x) with pads that count  where the border is zeros
      {"pad-into-average-pool", op(OpKind::AveragePool, {border()}), is_border_of_mean, put_mean},
      // MaxPool(Pad(x))  ->  MaxPool(x) with pads  where the border is -inf
      {"pad-into-max-pool", op(OpKind::MaxPool, {border()}), is_border_of_maximum, put_window},
  };
  return rules;
}

}  // namespace weftc

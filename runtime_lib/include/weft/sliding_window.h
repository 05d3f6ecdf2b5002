// The geometry of a convolution or pool in its spatial dimensions.
#pragma once
#include <algorithm>
#include <cstdint>

namespace weft {

/// Three spatial dimensions; missing leading ones have extent 1.
struct SlidingWindow {
  int64_t in[3], out[3], taps[3], stride[3], dilation[3], pad[3];

  constexpr int64_t in_count() const { return in[0] * in[1] * in[2]; }
  constexpr int64_t out_count() const { return out[0] * out[1] * out[2]; }
  constexpr int64_t tap_count() const { return taps[0] * taps[1] * taps[2]; }
  /// Input position of a tap, outside [0, in) in the padding.
  constexpr int64_t at(int d, int64_t o, int64_t tap) const { return o * stride[d] + tap * dilation[d] - pad[d]; }
  /// The outputs first .. last along the last dimension whose tap lies inside the input.
  constexpr void inside(int64_t tap, int64_t& first, int64_t& last) const {
    const int64_t shift = tap * dilation[2] - pad[2];
    first = shift >= 0 ? 0 : (-shift + stride[2] - 1) / stride[2];
    last = in[2] - 1 - shift < 0 ? 0 : (in[2] - 1 - shift) / stride[2] + 1;
    last = std::min(last, out[2]);
    first = std::min(first, last);
  }
};

/// The taps first .. last of one dimension that lie inside the input.
struct TapRange {
  int64_t first, last;
};
constexpr TapRange taps_inside(const SlidingWindow& w, int d, int64_t output) {
  const int64_t begin = w.at(d, output, 0), step = w.dilation[d];
  if (begin >= 0 && begin + (w.taps[d] - 1) * step < w.in[d]) return {0, w.taps[d]};  // most, without a division
  const int64_t first = begin >= 0 ? 0 : std::min(w.taps[d], (-begin + step - 1) / step);
  const int64_t last = begin >= w.in[d] ? 0 : std::min(w.taps[d], (w.in[d] - 1 - begin) / step + 1);
  return {first, std::max(first, last)};
}

/// Groups of `filters` filters over `channels` channels each.
struct Convolution {
  int64_t batch, groups, channels, filters;
};

}  // namespace weft

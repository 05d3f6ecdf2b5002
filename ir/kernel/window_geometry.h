// The geometry of a convolution or pool on one rank, and what its loops run over. A pool is a convolution with
// as many groups as channels and one filter each.
#pragma once
#include "ir/kernel/kernel_body.h"

namespace weftc {

/// Local extents, in elements.
struct WindowGeometry {
  int64_t groups, channels, filters, taps;  // channels and filters of one group
  Scale batch, inputs, outputs;             // elements of one channel of one image
  // Of each spatial dimension: extents of the input, the result and the window, and how the window moves.
  IndexDims in, out, before;  // `before`: the padding in front
  Dims window, stride, dilation;
  bool plain;  // taps of one element, no padding, no stride
  // Channels that are summed are sliced unevenly: which of the kernel's run-time extents says how many this rank has.
  // `channels` are then the most that a rank has; what lies behind this rank's own is written by nobody.
  std::optional<size_t> run_channels;
};

/// Reads the geometry of the op that makes `root`; nothing for more than three spatial dimensions, for a bias
/// inside of the op, and where there are no elements.
std::optional<WindowGeometry> window_geometry(const KernelBody& body, ValueId root);
/// Elements of padding before each spatial dimension of a window op: numbers, or run-time lengths of the kernel.
IndexDims padding_before(const KernelBody& body, const Op& op);

/// The same convolution of groups with one filter each as windows over one channel a group: the channels of a group are
/// a spatial dimension before the others, which one window spans. There are at most two others, or one channel.
WindowGeometry channels_as_taps(WindowGeometry geometry);

/// How the runtime computes windows over one channel a group whose groups lie innermost.
enum class ChannelPath : uint8_t {
  TapRow,        // tiles for the row of taps, which is known when the kernel is compiled (weft/channel_tiles.h)
  LargeWindows,  // long rows of taps whose sums of all outputs stay in the nearest caches (weft/large_windows.h)
  AnyWindow,     // all others (weft/channels_last.h)
};
ChannelPath channel_path(const WindowGeometry& geometry);

}  // namespace weftc

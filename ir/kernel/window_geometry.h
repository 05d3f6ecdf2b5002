// The geometry of a convolution or pool on one rank, and the loops over it. A pool is a convolution with as many groups
// as channels and one filter each.
#pragma once
#include "ir/kernel/kernel_body.h"

namespace weftc {

/// Local extents, in elements.
struct WindowGeometry {
  int64_t groups, channels, filters, taps;  // channels and filters of one group
  Scale batch, inputs, outputs;             // elements of one channel of one image
  // For each spatial dimension: extents of the input, the result and the window, and how the window moves.
  IndexDims in, out, before;  // `before`: the padding before the first element
  Dims window, stride, dilation;
  bool plain;  // taps of one element, no padding, no stride
  // Set if summed channels are sliced unevenly: the kernel's run-time extent with this rank's number of them.
  // `channels` is then the maximum over ranks; nothing writes the memory after this rank's own channels.
  std::optional<size_t> run_channels;
};

/// Reads the geometry of the op that produces `root`. Nothing for more than three spatial dimensions, for a bias inside
/// of the op, and without elements.
std::optional<WindowGeometry> window_geometry(const KernelBody& body, ValueId root);
/// Elements of padding before each spatial dimension of a window op: numbers, or run-time lengths of the kernel.
IndexDims padding_before(const KernelBody& body, const Op& op);

/// The same convolution of groups with one filter each, as windows over one channel a group. The channels of a group
/// become a leading spatial dimension, which one window spans. There are at most two others, or one channel.
WindowGeometry channels_as_taps(WindowGeometry geometry);

/// How the runtime computes windows over one channel a group, for innermost groups.
enum class ChannelPath : uint8_t {
  TapRow,        // tiles for a row of taps whose length is known when the kernel is compiled (weft/channel_tiles.h)
  LargeWindows,  // long rows of taps whose sums of all outputs stay in the nearest caches (weft/large_windows.h)
  AnyWindow,     // all others (weft/channels_last.h)
};
ChannelPath channel_path(const WindowGeometry& geometry);

}  // namespace weftc

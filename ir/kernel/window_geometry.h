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
  IndexDims in, out;
  Dims window, stride, dilation, before;
  bool plain;  // taps of one element, no padding, no stride
  // Channels that are summed are sliced unevenly: which of the kernel's run-time extents says how many this rank has.
  // `channels` are then the most that a rank has; what lies behind this rank's own is written by nobody.
  std::optional<size_t> run_channels;
};

/// Reads the geometry of the op that makes `root`; nothing for more than three spatial dimensions, for a bias
/// inside of the op, and where there are no elements.
std::optional<WindowGeometry> window_geometry(const KernelBody& body, ValueId root);

}  // namespace weftc

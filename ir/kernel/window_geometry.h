// The geometry of a convolution or pool, and what its loops run over.
#pragma once
#include "ir/kernel/kernel_body.h"

namespace weftc {

struct WindowGeometry {
  int64_t batch, groups, channels, filters, taps, inputs, outputs;  // channels and filters of one group
  // Of each spatial dimension: extents of the input, the result and the window, and how the window moves.
  Dims in, out, window, stride, dilation, before;
  bool plain;  // taps of one element, no padding, no stride
};

/// Nothing for more than three spatial dimensions, and where there are no elements.
std::optional<WindowGeometry> window_geometry(const KernelBody& body, ValueId root);

}  // namespace weftc

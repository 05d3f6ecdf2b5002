// The geometry of a convolution or pool, and what its loops run over.
#pragma once
#include "backend/kernel_context.h"

namespace weftc {

struct WindowGeometry {
  int64_t batch, groups, channels, filters, taps, inputs, outputs;  // channels and filters of one group
  Dims out;
  bool plain;        // taps of one element, no padding, no stride
  std::string text;  // "constexpr weft::SlidingWindow window{...};"
};

/// Nothing for more than three spatial dimensions, and where there are no elements.
std::optional<WindowGeometry> window_geometry(const KernelContext& context, ValueId root);

}  // namespace weftc

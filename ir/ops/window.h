// Windows over spatial dimensions: what convolution and pooling share.
#pragma once
#include "ir/ops/record.h"

namespace weftc {

/// One spatial dimension: output position o reads o*stride - before + k*dilation for k < kernel.
struct WindowDim {
  int64_t kernel, stride, dilation, before, behind, in, out;

  int64_t reach() const { return (kernel - 1) * dilation + 1; }
};
using Window = std::vector<WindowDim>;

/// From attributes kernel_shape, strides, dilations, pads, auto_pad and ceil_mode; `kernel` counts where kernel_shape
/// is absent. Nothing after reporting.
std::optional<Window> window_of(const OpView& op, const Dims& kernel);
/// Whether a third operand, if there is one, is a vector with an element for each channel of the result.
bool has_fitting_bias(const OpView& op, int64_t channels);
/// Fills kernel_shape, strides, dilations and pads; auto_pad becomes NOTSET.
void canonical_window(Op& op, const Window& window);
/// The window as the canonical attributes of an op on local tensors tell it.
Window window_of_attrs(const Op& op, const Dims& in, const Dims& out);

inline std::vector<AttrSpec> window_attrs() {
  return {{"auto_pad", AttrType::Text, "NOTSET"},
          {"dilations", AttrType::Ints},
          {"kernel_shape", AttrType::Ints},
          {"pads", AttrType::Ints},
          {"strides", AttrType::Ints}};
}

/// The linear position in the spatial dims that output `at` reads with window index `k`, or -1 in the padding.
int64_t window_source(const Window& window, const Dims& in_strides, const Index& at, const Index& k, int first_dim);

}  // namespace weftc

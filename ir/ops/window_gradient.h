// The two derivatives of a sum over windows, for convolutions and pools.
//
//   y[o] = sum over k of x[o * stride - before + k * dilation] * w[k]
//   dx: each g[o] goes to all elements of its window      dw[k]: the sum over o of g[o] * x[o * stride - before + ...]
#pragma once
#include "ir/ops/formula.h"
#include "ir/ops/window.h"

namespace weftc {

/// The derivative by the image [N, C, ...], given the derivative by the result [N, M, ...] of a convolution with
/// filters [M, C / group, window]. It is a ConvTranspose that restores the image's extents.
Term spread_over_windows(Builder& build, const Term& g, const Term& filters, const Window& window, int64_t group);

/// The derivative by the filters, [M, C / group, window]. It is a convolution with channels as batch and g as filters,
/// in which strides and dilations are exchanged.
Term gradient_of_filters(Builder& build, const Term& image, const Term& g, const Window& window, int64_t group);

}  // namespace weftc

// Sliding windows over spatial dimensions, for convolution and pooling. Everything is counted in elements.
//
//   in = 5, kernel = 3, stride = 2, before = after = 1:      . x0 x1 x2 x3 x4 .
//                                                      out 0  [-----]
//                                                      out 1        [-----]
//                                                      out 2              [-----]
#pragma once
#include <algorithm>

#include "ir/ops/record.h"

namespace weftc {

/// One spatial dimension: output position o reads o*stride - before + k*dilation for k < kernel.
struct WindowDim {
  int64_t kernel, stride, dilation, before, after, in, out;

  /// The number of elements that a window spans, including the gaps of the dilation.
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
};
using Window = std::vector<WindowDim>;

/// Reads attributes kernel_shape, strides, dilations, pads, auto_pad and ceil_mode for an image [batch, channels, ...],
/// by default operand 0. `kernel` is used if kernel_shape is absent. Nothing after reporting.
std::optional<Window> window_of(const OpView& op, const Dims& kernel);
std::optional<Window> window_of(const OpView& op, const Dims& kernel, const Dims& image);
/// The shape of the result of a window over an image (by default operand 0): the batch, `channels`, and an extent for
/// each spatial dimension, which may be a run-time length. Nothing after reporting.
std::optional<Shape> windows_shape(const OpView& op, const Window& window, const Extent& channels);
std::optional<Shape> windows_shape(const OpView& op, const Window& window, const Extent& channels, const Shape& image);
/// The shape of the result of a convolution of an image (by default operand 0), by attribute `group` and the window's;
/// nothing after reporting. Each group of the image's channels has M / group filters, whose shape gives the number of
/// channels of a group.
std::optional<Shape> convolution_shape(const OpView& op, int filters);
std::optional<Shape> convolution_shape(const OpView& op, int filters, const Shape& image);
/// The dims of an image, or a list with an entry for each, with the channels after the batch or after all other dims.
template <class List>
List with_channels_first(List list) {
  std::rotate(list.begin() + 1, list.end() - 1, list.end());
  return list;
}
template <class List>
List with_channels_last(List list) {
  std::rotate(list.begin() + 1, list.begin() + 2, list.end());
  return list;
}
/// Factors of a convolution of operand 0 with the filters of operand 1.
FactorRule factors_convolution(const OpView& op);
/// As canonical_window.
void canonical_convolution(Op& op, const OpView& view);
/// The result of an op that convolves these tensors like Conv; null: no bias.
void convolve(EvalContext& context, const Tensor& x, const Tensor& w, const Tensor* bias);
/// True without a third operand, or if it is a vector with an element for each channel of the result; else reports.
bool has_fitting_bias(const OpView& op, int64_t channels);
/// Stores explicit kernel_shape, strides, dilations and pads, and sets auto_pad to NOTSET. If SAME_* pads an image by a
/// run-time length, auto_pad stays and there are no `pads`.
void canonical_window(Op& op, const Window& window, const Shape& image);
/// Whether the padding follows from the lengths of the image; the attributes are canonical.
bool pads_by_length(const Op& op);
/// The elements of padding before spatial dimension `d` of `in` elements; the attributes are canonical.
Length padding_before(const Op& op, size_t d, const Length& in);
/// The window from the canonical attributes of an op on local tensors.
Window window_of_attrs(const Op& op, const Dims& in, const Dims& out);

/// Common attributes of Conv and the pools. Pads are all befores, then all afters (ONNX).
inline std::vector<AttrSpec> window_attrs() {
  return {choice("auto_pad", "NOTSET", "NOTSET VALID SAME_UPPER SAME_LOWER"),
          {"dilations", AttrType::Ints},
          {"kernel_shape", AttrType::Ints},
          {"pads", AttrType::Ints},
          {"strides", AttrType::Ints}};
}

/// The linear position in the spatial dims that output `at` reads with window index `k`, or -1 in the padding.
int64_t window_source(const Window& window, const Dims& in_strides, const Index& at, const Index& k, int first_dim);

}  // namespace weftc

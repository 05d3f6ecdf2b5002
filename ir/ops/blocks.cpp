// Images assembled from parts: Col2Im (ONNX Col2Im-18) adds overlapping blocks, MaxUnpool-22 puts each maximum back to
// its old position.
//
//   Col2Im of blocks [a b] [c d], one element apart:     a   b + c   d
//
// Each element of the image is the sum of the few block elements that cover it. These are known at compile time, so a
// Gather reads them and a sum over them follows.
#include <algorithm>

#include "ir/base/checked.h"
#include "ir/ops/formula.h"
#include "ir/ops/index.h"

namespace weftc {

namespace {

/// One spatial dimension: `blocks` blocks of `size` elements, `dilation` apart, begin every `stride` elements.
struct BlockAxis {
  int64_t image, size, dilation, before, after, stride;

  int64_t blocks() const { return (image + before + after - (size - 1) * dilation - 1) / stride + 1; }
};

/// An element of a block: its index in the block, and the block.
struct BlockElement {
  int64_t element, block;
};

std::vector<BlockElement> elements_at(const BlockAxis& axis, int64_t position) {
  std::vector<BlockElement> found;
  for (int64_t k = 0; k < axis.size; ++k) {
    const int64_t start = position + axis.before - k * axis.dilation;
    if (start >= 0 && start % axis.stride == 0 && start / axis.stride < axis.blocks())
      found.push_back({k, start / axis.stride});
  }
  return found;
}

/// Nothing after reporting.
std::optional<std::vector<BlockAxis>> block_axes(const OpView& op) {
  const Dims image = ints_of(op.op(), "image_shape"), block = ints_of(op.op(), "block_shape");
  const size_t ndim = image.size();
  const auto list = [&](const char* attr, size_t count, int64_t otherwise) {
    const std::vector<int64_t> values = ints_of(op.op(), attr);
    return values.empty() ? std::vector<int64_t>(count, otherwise) : values;
  };
  const std::vector<int64_t> dilations = list("dilations", ndim, 1), pads = list("pads", 2 * ndim, 0),
                             strides = list("strides", ndim, 1);
  if (ndim == 0 || block.size() != ndim || dilations.size() != ndim || pads.size() != 2 * ndim ||
      strides.size() != ndim)
    return op.fail("col2im-lengths", "image, blocks, dilations, pads and strides have {}, {}, {}, {} and {} entries",
                   ndim, block.size(), dilations.size(), pads.size(), strides.size()),
           std::nullopt;
  std::vector<BlockAxis> axes;
  for (size_t d = 0; d < ndim; ++d) {
    const auto is_beyond_all = [](int64_t value) { return value > kMostExtent; };
    const bool is_countable = checked_product(block[d] - 1, dilations[d]).value_or(-1) >= 0 &&
                              std::ranges::none_of(image, is_beyond_all) &&
                              std::ranges::none_of(block, is_beyond_all) && std::ranges::none_of(pads, is_beyond_all);
    const BlockAxis axis{image[d], block[d], dilations[d], pads[d], pads[ndim + d], strides[d]};
    const bool fits = is_countable && axis.image > 0 && axis.size > 0 && axis.dilation > 0 && axis.stride > 0 &&
                      axis.before >= 0 && axis.after >= 0 &&
                      axis.image + axis.before + axis.after > (axis.size - 1) * axis.dilation;
    if (!fits) return op.fail("col2im-extent", "no block fits into dimension {} of the image", d), std::nullopt;
    axes.push_back(axis);
  }
  return axes;
}

/// x [N, C * elements of a block, blocks]; the image is [N, C, image shape].
bool infer_col2im(const OpView& op, std::vector<TensorType>& results) {
  if (!is_given(op, 1, "image_shape", "shape of the image") || !is_given(op, 2, "block_shape", "shape of a block"))
    return false;
  if (!has_ndim(op, 0, 3, 3) || !is_fixed(op, 0)) return false;
  const std::optional<std::vector<BlockAxis>> axes = block_axes(op);
  if (!axes) return false;
  const Dims x = op.dims(0);
  int64_t size = 1, blocks = 1;
  Dims image{x[0], 0};
  bool is_countable = true;
  for (const BlockAxis& axis : *axes) {
    const std::optional<int64_t> sizes = checked_product(size, axis.size), all = checked_product(blocks, axis.blocks());
    is_countable = is_countable && sizes && all;
    size = sizes.value_or(1), blocks = all.value_or(1);
    image.push_back(axis.image);
  }
  if (!is_countable || x[1] % size || x[2] != blocks)
    return op.fail("col2im-dims", "{} blocks of {} elements do not fit an input of shape {}", blocks, size,
                   dims_text(x));
  image[1] = x[1] / size;
  results = {{op.type(0).dtype, shape_of(image), {}}};
  return true;
}

/// The block elements that cover each element of one dimension: dims [image, maximum number of them] at dimension `dim`
/// of `ndim`.
struct Cover {
  Term position, is_there;
};

Cover cover(Builder& build, const BlockAxis& axis, int64_t element_stride, int64_t block_stride, int dim, int ndim) {
  std::vector<std::vector<BlockElement>> all;
  size_t most = 1;
  for (int64_t i = 0; i < axis.image; ++i) {
    all.push_back(elements_at(axis, i));
    most = std::max(most, all.back().size());
  }
  std::vector<double> position, is_there;
  for (const std::vector<BlockElement>& elements : all)
    for (size_t t = 0; t < most; ++t) {
      const BlockElement element = t < elements.size() ? elements[t] : BlockElement{0, 0};
      position.push_back(static_cast<double>(element.element * element_stride + element.block * block_stride));
      is_there.push_back(t < elements.size());
    }
  Dims dims(ndim, 1);
  dims[dim] = axis.image;
  dims[dim + 1] = static_cast<int64_t>(most);
  return {constant(build, DType::I64, dims, position), constant(build, DType::Bool, dims, is_there)};
}

std::vector<ValueId> decompose_col2im(Builder& build, const OpView& op) {
  const std::vector<BlockAxis> axes = *block_axes(op);
  const Dims dims = op.dims(0), image = op.result_type(0).dims();
  const int ndim = static_cast<int>(2 * axes.size());
  Dims sizes, blocks;
  for (const BlockAxis& axis : axes) {
    sizes.push_back(axis.size);
    blocks.push_back(axis.blocks());
  }
  const Dims size_strides = strides_of(sizes), block_strides = strides_of(blocks);
  std::optional<Cover> all;
  std::vector<int64_t> summed;
  for (size_t d = 0; d < axes.size(); ++d) {
    const Cover own = cover(build, axes[d], size_strides[d] * dims[2], block_strides[d], static_cast<int>(2 * d), ndim);
    all = all ? Cover{all->position + own.position, all->is_there && own.is_there} : own;
    summed.push_back(static_cast<int64_t>(2 * d + 3));
  }
  const Term x = Term(build, op.op().inputs[0]).reshape({dims[0], image[1], element_count(sizes) * dims[2]});
  const Term elements = gather(build, x, all->position, 2);
  return {all->is_there.choose(elements, elements.scalar(0)).reduce(OpKind::ReduceSum, summed, false).value()};
}

/// The extents of the operand that pooling with these attributes had; nothing after reporting.
std::optional<Dims> pooled_from(const OpView& op) {
  const Dims x = op.dims(0);
  const size_t ndim = x.size() - 2;
  const auto list = [&](const char* attr, size_t count, int64_t otherwise) {
    const std::vector<int64_t> values = ints_of(op.op(), attr);
    return values.empty() ? std::vector<int64_t>(count, otherwise) : values;
  };
  const std::vector<int64_t> kernel = ints_of(op.op(), "kernel_shape"), strides = list("strides", ndim, 1),
                             pads = list("pads", 2 * ndim, 0);
  if (kernel.size() != ndim || strides.size() != ndim || pads.size() != 2 * ndim)
    return op.fail("window-lengths",
                   "kernel_shape, strides and pads have {}, {} and {} entries for {} spatial dimensions", kernel.size(),
                   strides.size(), pads.size(), ndim),
           std::nullopt;
  const auto is_beyond_all = [](int64_t value) { return value < -kMostExtent || value > kMostExtent; };
  Dims dims{x[0], x[1]};
  for (size_t d = 0; d < ndim; ++d) {
    const std::optional<int64_t> steps = checked_product(x[d + 2] - 1, strides[d]);
    if (!steps || std::ranges::any_of(std::vector{*steps, kernel[d], pads[d], pads[ndim + d]}, is_beyond_all))
      return op.fail("max-unpool-reach", "spatial dimension {} would have more than 2^40 elements", d), std::nullopt;
    dims.push_back(*steps + kernel[d] - pads[d] - pads[ndim + d]);
  }
  return dims;
}

bool infer_max_unpool(const OpView& op, std::vector<TensorType>& results) {
  if (!is_known(op, 2, "output_shape", "shape of the result") || !has_ndim(op, 0, 3) || !is_fixed(op, 0)) return false;
  if (!integer_operand(op, 1)) return false;
  if (op.dims(0) != op.dims(1))
    return op.fail("max-unpool-dims", "values of shape {} and indices of shape {} do not fit", dims_text(op.dims(0)),
                   dims_text(op.dims(1)));
  const std::optional<Dims> from = pooled_from(op);
  if (!from) return false;
  const Dims asked = ints_of(op.op(), "output_shape"), result = asked.empty() ? *from : asked;
  bool fits = result.size() == from->size();
  for (size_t d = 0; fits && d < result.size(); ++d) fits = (*from)[d] > 0 && result[d] >= (*from)[d];
  if (!fits)
    return op.fail("max-unpool-shape", "a result of shape {} does not hold the pooled {}", dims_text(result),
                   dims_text(*from));
  results = {{op.type(0).dtype, shape_of(result), {}}};
  return true;
}

/// Indices count elements of the pooled tensor. A larger result has zeros at the end of each dimension.
std::vector<ValueId> decompose_max_unpool(Builder& build, const OpView& op) {
  const Dims from = *pooled_from(op), result = op.result_type(0).dims();
  const int64_t count = op.type(0).count(), total = element_count(from);
  const Term x(build, op.op().inputs[0]), indices(build, op.op().inputs[1]);
  const ValueId zeros = build.op(OpKind::Expand, {x.scalar(0).value()}, {{"shape", Dims{total}}});
  const Term filled(
      build, build.op(OpKind::ScatterElements, {zeros, indices.reshape({count}).value(), x.reshape({count}).value()},
                      {{"axis", int64_t{0}}, {"from_front", int64_t{1}}}));
  if (result == from) return {filled.reshape(from).value()};
  Dims pads(from.size(), 0);
  for (size_t d = 0; d < from.size(); ++d) pads.push_back(result[d] - from[d]);
  return {build.op(OpKind::Pad, {filled.reshape(from).value()}, {{"pads", pads}})};
}

}  // namespace

const OpDef kCol2Im{.kind = OpKind::Col2Im,
                    .name = "Col2Im",
                    .onnx = {"Col2Im", 18},
                    .attrs = {{"block_shape", AttrType::Ints},
                              {"dilations", AttrType::Ints},
                              {"image_shape", AttrType::Ints},
                              {"pads", AttrType::Ints},
                              {"strides", AttrType::Ints}},
                    .inputs = {1, 3},
                    .constant_operands = {{1, "image_shape", AttrType::Ints}, {2, "block_shape", AttrType::Ints}},
                    .infer = infer_col2im,
                    .decompose = decompose_col2im};

const OpDef kMaxUnpool{.kind = OpKind::MaxUnpool,
                       .name = "MaxUnpool",
                       .onnx = {"MaxUnpool", 9},
                       .attrs = {{"kernel_shape", AttrType::Ints, {}, true},
                                 {"output_shape", AttrType::Ints},
                                 {"pads", AttrType::Ints},
                                 {"strides", AttrType::Ints}},
                       .inputs = {2, 3},
                       .constant_operands = {{2, "output_shape", AttrType::Ints}},
                       .infer = infer_max_unpool,
                       .decompose = decompose_max_unpool};

}  // namespace weftc

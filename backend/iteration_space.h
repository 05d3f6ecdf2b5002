// The iteration spaces of a kernel's nests: rows that reductions of the body share, and outputs that no such row
// reaches. Spaces are cut where a Concat or Pad changes operand.
#pragma once
#include <algorithm>

#include "backend/kernel_context.h"

namespace weftc {

/// The dims of a value, the dims that reductions of the body run over, and the outputs stored in it.
struct IterationSpace {
  TensorType type;
  Dims dims;
  IndexDims extents;  // the same with run-time lengths
  Dims start = {};    // of the segment that is iterated; empty: everything
  Dims extent = {};
  std::vector<int64_t> reduced = {};
  std::vector<size_t> outputs = {}, row_outputs = {};  // row outputs: one element for each row

  int64_t extent_of(int64_t d) const {
    return extent.empty() ? dims[static_cast<size_t>(d)] : extent[static_cast<size_t>(d)];
  }
  bool is_reduced(size_t d) const {
    return std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) != reduced.end();
  }
};

/// Spaces that cover every output of the kernel once.
std::vector<IterationSpace> spaces_of(const KernelContext& context);

/// Consecutive operands of a Concat that are read in the same way: parameters of one type and storage. A loop over them
/// takes their addresses from a table.
struct AlikeOperands {
  size_t first = 0, count = 1;
  int64_t start = 0, width = 0;  // positions along the axis of the Concat: start of the first, and width of each
};
/// All operands of a Concat in their order; small groups of alike operands are not joined.
std::vector<AlikeOperands> alike_operands(const KernelContext& context, const Op& concat);

/// Splits the space into parts in which every Concat and Pad of its shape reads one operand, or alike ones. Inner loops
/// then need no conditions.
std::vector<IterationSpace> segments(KernelContext& context, const IterationSpace& space);

/// The index in `output` of element `index` of a tensor of local extents `space`. Views and pointwise ops compute
/// `output` from it; nothing otherwise.
std::optional<IndexList> place_in(const KernelContext& context, ValueId output, const IndexDims& space,
                                  const IndexList& index);

}  // namespace weftc

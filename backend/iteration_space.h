// Which indices the nests of a kernel run over: spaces of rows that reductions of the body share, and spaces of the
// outputs that no such row reaches, cut where a Concat or Pad changes operand.
#pragma once
#include <algorithm>

#include "backend/kernel_context.h"

namespace weftc {

/// The dims of a value, those that reductions of the body run over, and the outputs stored in it.
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

/// Spaces that reach every output of the kernel once.
std::vector<IterationSpace> spaces_of(const KernelContext& context);

/// Operands of a Concat, one behind the other, which are read alike: parameters of one type and storage. A loop over
/// them takes their addresses from a table.
struct AlikeOperands {
  size_t first = 0, count = 1;
  int64_t start = 0, width = 0;  // positions along the axis of the Concat: of the first, and how many each has
};
/// All operands of a Concat in their order; few that are alike are not taken together.
std::vector<AlikeOperands> alike_operands(const KernelContext& context, const Op& concat);

/// The space in parts in which every Concat and Pad of its shape reads one operand only, or alike ones: no conditions
/// in inner loops.
std::vector<IterationSpace> segments(KernelContext& context, const IterationSpace& space);

/// Where element `index` of a tensor of local extents `space` is in `output`, which views and pointwise ops make from
/// one of those extents. Nothing if it is not such.
std::optional<IndexList> place_in(const KernelContext& context, ValueId output, const IndexDims& space,
                                  const IndexList& index);

}  // namespace weftc

// Which operands of a kernel hold indices from data: they are checked before the kernel reads by them.
#pragma once
#include <vector>

#include "backend/kernel_context.h"

namespace weftc {

/// A parameter of a kernel whose elements a Gather looks up as they are.
struct CheckedIndices {
  size_t parameter;
  Length count;   // elements of the operand on a rank
  Length extent;  // of the dimension that is looked up
  OpId op;        // in the kernel's body
};

/// The index operands of Gather, GatherElements and GatherND (of one index each) that stand in memory: inputs of the
/// body seen through views that keep all elements. Left out are those in slices that are ragged or of run-time length,
/// or behind which memory holds more than the valid elements, and lengths that are no products of names.
std::vector<CheckedIndices> checked_indices(const KernelContext& context);

}  // namespace weftc

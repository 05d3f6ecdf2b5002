// Which dimensions of its data an op addresses by indices from data.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace weftc {

/// Consecutive dimensions of an op's first operand. The indices in its second one are for one of them, or in tuples of
/// one for each.
struct LookedUpDims {
  int first;
  int count = 1;
  bool has_tuples = false;  // the last dimension of the indices holds the tuples
};

/// Nothing for an op that addresses nothing so.
std::optional<LookedUpDims> looked_up_dims(const Op& op, const TensorType& data, const TensorType& indices);

}  // namespace weftc

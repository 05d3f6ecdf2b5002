// The dimensions of its data that an op addresses by indices from data.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace weftc {

/// Consecutive dimensions of an op's first operand. Its second operand has indices for one of them, or tuples with an
/// index for each.
struct LookedUpDims {
  int first;
  int count = 1;
  bool has_tuples = false;  // the last dimension of the indices holds the tuples
};

/// Nothing for an op that addresses no dimension in this way.
std::optional<LookedUpDims> looked_up_dims(const Op& op, const TensorType& data, const TensorType& indices);

}  // namespace weftc

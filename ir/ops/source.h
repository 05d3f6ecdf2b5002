// Common code of sources whose shape is an attribute: index patterns and random draws.
#pragma once
#include "ir/ops/record.h"

namespace weftc {

/// One result of attribute `shape` and attribute `dtype`.
bool infer_filled(const OpView& op, std::vector<TensorType>& results);
/// Every dimension of the result passes: elements are computed from their global position.
FactorRule factors_filled(const OpView& op);

}  // namespace weftc

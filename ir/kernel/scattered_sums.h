// Scatters that keep their sums in a wider type than the result's. The host's kernels and the plan of their memory
// agree on it.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace weftc {

/// The type that holds the sums of a scatter of `updates` numbers into a result of `elements` numbers of type `dtype`.
/// Nothing if the result itself holds them: in a large table, few elements get updates.
std::optional<DType> scattered_sum_type(const Op& scatter, DType dtype, int64_t elements, int64_t updates);

}  // namespace weftc

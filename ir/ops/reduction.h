// What reductions, plain and composite, share.
#pragma once
#include "ir/ops/record.h"

namespace weftc {

inline std::vector<AttrSpec> reduction_attrs() {
  return {{"axes", AttrType::Ints}, {"keepdims", AttrType::Int, 1}, {"noop_with_empty_axes", AttrType::Int, 0}};
}

/// The axes reduced, ascending; nothing after reporting. An absent or empty list means all, or none with
/// noop_with_empty_axes.
std::optional<std::vector<int64_t>> reduced_axes(const OpView& op);
bool infer_reduction(const OpView& op, std::vector<TensorType>& results);
void canonical_reduction(Op& op, const OpView& view);

}  // namespace weftc

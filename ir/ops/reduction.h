// Common code of the records of plain and composite reductions. ONNX gives the axes as an attribute (before opset 18;
// Sum before 13) or as an operand that must be constant. The canonical form is the attribute `axes`, ascending.
#pragma once
#include "ir/ops/gradient.h"

namespace weftc {

/// The attributes of every reduction. `axes` has no default: absent and empty mean the same (see reduced_axes).
inline std::vector<AttrSpec> reduction_attrs() {
  return {{"axes", AttrType::Ints}, flag("keepdims", 1), flag("noop_with_empty_axes", 0)};
}

/// The axes reduced, ascending; nothing after reporting. An absent or empty list means all, or none with
/// noop_with_empty_axes.
std::optional<std::vector<int64_t>> reduced_axes(const OpView& op);
/// The operand's dtype; reduced dims have extent 1 or are dropped (`keepdims` 0).
bool infer_reduction(const OpView& op, std::vector<TensorType>& results);
/// Stores the axes explicitly. From here on an empty list means no axes, hence noop_with_empty_axes becomes 1.
void canonical_reduction(Op& op, const OpView& view);
/// The result of a reduction, or its derivative g, with extent 1 for dropped dimensions.
Term with_reduced(const BackwardStep& s, const Term& reduced);

}  // namespace weftc

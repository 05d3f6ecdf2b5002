// Integer arithmetic of a model on lengths: what an op makes of elements that are known as polynomials
// (shape_values.h).
#pragma once
#include "ir/op_def.h"

namespace weftc {

/// The elements of an op's results, from those of its operands (OpView::lengths) and the types around it; nothing
/// where they depend on more than lengths. The op has been inferred.
std::optional<std::vector<std::vector<Length>>> shape_values(const OpView& op);

}  // namespace weftc

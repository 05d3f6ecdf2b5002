// Integer arithmetic of a model on lengths: what an op makes of elements that are known as polynomials
// (shape_values.h).
#pragma once
#include "ir/op_def.h"

namespace weftc {

/// The elements of an op's results, from those of its operands (OpView::lengths) and the types around it; nothing
/// where they depend on more than lengths. The op has been inferred.
std::optional<std::vector<std::vector<Length>>> shape_values(const OpView& op);
/// Which value the one name in `length` must have for the length not to be negative; nothing where there are several
/// names, or no value up to the bound does it.
std::optional<std::pair<std::string, int64_t>> least_for(const Length& length);

}  // namespace weftc

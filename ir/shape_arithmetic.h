// Integer arithmetic of a model on lengths: evaluates an op on elements that are known as polynomials (shape_values.h).
#pragma once
#include "ir/op_def.h"

namespace weftc {

/// The elements of an op's results, from those of its operands (OpView::lengths) and the types around it. Nothing if
/// they depend on more than lengths. The op must be inferred.
std::optional<std::vector<std::vector<Length>>> shape_values(const OpView& op);
/// The value that the only name in `length` must have at least for the length not to be negative. Nothing if there are
/// several names, or no value up to the bound suffices.
std::optional<std::pair<std::string, int64_t>> least_for(const Length& length);

}  // namespace weftc

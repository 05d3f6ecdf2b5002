// Operands of a composite op with dimensions that must be equal: the same batch for all of them, keys and values of one
// length. Requests are checked for this if the dimensions are run-time lengths.
#pragma once
#include <utility>

#include "ir/ops/record.h"

namespace weftc {

/// The shape that an operand must have, given the others; an absent operand may have any.
using OperandShapes = std::vector<std::pair<int, Shape>>;

/// True if the operands have these shapes or some request could give them; else reports `id`.
bool have_shapes(const OpView& op, const OperandShapes& wanted, const char* id);
/// The relations of lengths that follow, for the record's `relate`.
std::vector<LengthRelation> relations_of(const OpView& op, const OperandShapes& wanted);

/// A new value with the bounds and lengths of `shape`: the shape of a result that a state may bound.
ValueId with_bounds(Builder& build, ValueId x, Shape shape);

}  // namespace weftc

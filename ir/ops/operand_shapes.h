// Operands of a composite op whose dimensions it takes for each other: a batch that all of them have, keys and values
// of one length. Where they are of run time, requests are checked for it.
#pragma once
#include <utility>

#include "ir/ops/record.h"

namespace weftc {

/// The shape that an operand is to have, by the others; an operand that is absent has any.
using OperandShapes = std::vector<std::pair<int, Shape>>;

/// True if the operands have these shapes or some request could give them; else reports `id`.
bool have_shapes(const OpView& op, const OperandShapes& wanted, const char* id);
/// What that demands of lengths, for the record's `relate`.
std::vector<LengthRelation> relations_of(const OpView& op, const OperandShapes& wanted);

/// A value that was just built, with the bounds and lengths of `shape`: those of a result that a state may bound.
ValueId with_bounds(Builder& build, ValueId x, Shape shape);

}  // namespace weftc

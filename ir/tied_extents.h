// Dimensions that an op takes for one, of which the model may have said different things:
//
//   Add(x f32[n<=4], y f32[m<=8])     n = m, which every request is checked for; hence m is at most 4 too
//
// Where m is a dimension of inputs, infer-types lowers its bound, so that a kernel meets one bound, and a slice over
// ranks one border. Elsewhere the model is refused, and the user told what to bound.
#pragma once
#include <vector>

#include "ir/op_def.h"

namespace weftc {

/// Whether its record, or its factors, say what the op demands of lengths; else its parts do.
bool ties_operands(const OpView& op);

/// What the op demands of lengths and what is not certain, from its record.
std::vector<LengthRelation> length_relations(const OpView& op);

/// Whether an operand can be broadcast to a shape without making it larger.
bool is_broadcast_to(const Shape& from, const Shape& to);

/// A length that an op takes for a dimension of a smaller bound; or for a number, in an op that broadcasts: its result
/// then has the number.
struct LooseLength {
  Length length;
  int64_t bound;  // of the dimension that has it
  Extent wanted;
};

/// The loose lengths among the operands of a typed op.
std::vector<LooseLength> loose_lengths(const OpView& op);

/// Whether the request says this length: all its names are dims of inputs.
bool is_given(const Module& module, const Length& length);
/// Reports, where there is one, that the op takes a length for a dimension of another bound; false then.
bool has_equal_bounds(const OpView& op);
/// Reports this one; false.
bool refuse_loose_length(const OpView& op, const LooseLength& loose);

}  // namespace weftc

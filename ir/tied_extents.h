// Dimensions that an op needs to be equal, but for which the model may have different bounds or names:
//
//   Add(x f32[n<=4], y f32[m<=8])     n = m, which every request is checked for; hence m is at most 4 too
//
// If m is a dimension of inputs, infer-types lowers its bound, so that kernels see one bound and slices over ranks have
// one border. Otherwise the model is refused, and the message says which length to bound.
#pragma once
#include <vector>

#include "ir/op_def.h"

namespace weftc {

/// True if the op's record or its factors state the relations of its lengths; otherwise its parts do.
bool ties_operands(const OpView& op);

/// Relations of lengths from the op's record that are not certain to hold.
std::vector<LengthRelation> length_relations(const OpView& op);

/// Whether an operand can be broadcast to a shape without enlarging that shape.
bool is_broadcast_to(const Shape& from, const Shape& to);

/// A length that an op needs to equal a dimension with a smaller bound. In an op that broadcasts it may also be a
/// number, which the result then has.
struct LooseLength {
  Length length;
  int64_t bound;  // of the dimension that has it
  Extent wanted;
};

/// The loose lengths among the operands of a typed op.
std::vector<LooseLength> loose_lengths(const OpView& op);

/// Whether the request determines this length: all its names are dims of inputs.
bool is_given(const Module& module, const Length& length);
/// Reports an op that needs a length to equal a dimension of another bound; false then.
bool has_equal_bounds(const OpView& op);
/// Reports this one; returns false.
bool refuse_loose_length(const OpView& op, const LooseLength& loose);

}  // namespace weftc

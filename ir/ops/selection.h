// Elements of which data decides how many there are: they lie at the front of a tensor of as many as there may be at
// most, of which the first `count` are the result.
//
//   mask  0 1 0 1 1      TruePositions  1 3 4 . .  and 3      ->   1 3 4
#pragma once
#include "ir/ops/record.h"

namespace weftc {

/// The first elements of `x` along `axis`, as many as `extent` says; x has at least the bound.
ValueId shortened(Builder& build, ValueId x, int64_t axis, const Extent& extent);
/// Where a mask, bool[n], is true, as a list of at most `most` positions.
ValueId positions_of_true(Builder& build, ValueId mask, int64_t most);

/// How many elements a tensor of this shape has.
Length element_length(const Shape& shape);
/// All dimensions as one: nothing to do for a list.
ValueId flattened(Builder& build, ValueId x);

/// Reports, inside of a branch or loop, that results have lengths which only data decides; else true.
bool may_have_counts(const OpView& op);

}  // namespace weftc

// Selections whose number of elements data decides. They fill the front of a tensor with the maximum number of
// elements; its first `count` elements are the result.
//
//   mask  0 1 0 1 1      TruePositions  1 3 4 . .  and 3      ->   1 3 4
#pragma once
#include "ir/ops/record.h"

namespace weftc {

/// The first `extent` elements of `x` along `axis`; x has at least the bound.
ValueId shortened(Builder& build, ValueId x, int64_t axis, const Extent& extent);
/// The positions of true elements in a mask, bool[n], as a list of at most `most` positions.
ValueId positions_of_true(Builder& build, ValueId mask, int64_t most);

/// Number of elements of a tensor of this shape.
Length element_length(const Shape& shape);
/// Joins all dimensions; does nothing for a list.
ValueId flattened(Builder& build, ValueId x);

/// Reports results whose lengths only data decides inside of a branch or loop; else true.
bool may_have_counts(const OpView& op);

}  // namespace weftc

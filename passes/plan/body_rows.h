// Rows of a kernel's body: whether its results may be computed for some indices of one dimension alone.
//
//   h [1, 8, 128]   MatMul(h, R)      S(1, 1): row i of the product is made of row i of h        may
//   h [1, 8, 128]   ReduceSum over 1  a sum over the rows                                         may not
//
// The rules are those by which values are sliced over ranks (passes/layout), on an axis with as many coordinates as
// there are rows. An op that depends on its own position along the dimension has no rows: an index pattern, a random
// draw, a look-up.
#pragma once
#include <optional>
#include <vector>

#include "ir/module.h"

namespace weftc {

/// The rows of a value. S(dim, block): index `first + i * block + j` of the dimension is of row i; R: all rows read the
/// whole. Where a Slice takes the rows out of a dimension, `first` is where they begin, and others may follow.
struct ValueRows {
  AxisState state = {};
  int64_t first = 0;

  bool has_rows() const { return state.is(AxisState::Kind::S); }
  bool operator==(const ValueRows&) const = default;
};
using BodyRows = std::vector<ValueRows>;  // by ValueId

/// Extends the known rows to all values of a body. Returns nothing where a row of a value depends on other rows, or
/// where the rules do not cover an op.
std::optional<BodyRows> rows_of_body(const Module& module, const Graph& body, const Length& count, BodyRows known);

}  // namespace weftc

// Rows of a kernel's body: whether its results may be computed for some indices of one dimension alone.
//
//   h [1, 8, 128]   MatMul(h, R)      S(1, 1): row i of the product is made of row i of h        may
//   h [1, 8, 128]   ReduceSum over 1  a sum over the rows                                         may not
//
// The rules are those by which values are sliced over ranks (passes/layout), on an axis with as many coordinates as
// there are rows. What asks for its own position along the dimension has no rows: an index pattern, a draw, a look-up.
#pragma once
#include <optional>
#include <vector>

#include "ir/module.h"

namespace weftc {

/// By ValueId: S(dim, block), where index `i * block + j` of the dimension is of row i; R where all rows read the
/// whole.
using BodyRows = std::vector<AxisState>;

/// The rows of all values of a body, of which some are known; nothing where a value of one row is made of another
/// one's, or where an op is none that the rules are for.
std::optional<BodyRows> rows_of_body(const Module& module, const Graph& body, int64_t count, BodyRows known);

}  // namespace weftc

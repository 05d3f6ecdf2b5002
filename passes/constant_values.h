// Values that are known when the executable is built: constants, and values that views and pointwise ops compute from
// them.
#pragma once
#include "ir/graph.h"

namespace weftc {

/// True if the value follows from constants by a few views and pointwise ops: a weight that is transposed, converted or
/// dequantized before it is read.
bool is_made_of_constants(const Graph& graph, ValueId value);

}  // namespace weftc

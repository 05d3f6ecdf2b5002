// Replaces a composite op by its parts. Decompose does so for all; type inference does so for those whose shape only
// shape arithmetic knows.
#pragma once
#include "ir/op_def.h"

namespace weftc {

/// Replaces an op by the decomposition in its record; returns the values that replace its results, empty after
/// reporting. `shapes`: known shape arithmetic, if that is needed.
std::vector<ValueId> replace_by_parts(Module& module, Graph& graph, OpId id, Diags& diags,
                                      const ShapeValues* shapes = nullptr);

}  // namespace weftc

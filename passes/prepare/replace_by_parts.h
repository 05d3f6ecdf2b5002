// Puts the parts of a composite op in its place: what decompose does to each, and type inference to those whose shape
// only shape arithmetic knows.
#pragma once
#include "ir/op_def.h"

namespace weftc {

/// Replaces an op by what its record decomposes it into; the values that stand for its results, empty after reporting.
/// `shapes`: what is known of shape arithmetic, if that is needed.
std::vector<ValueId> replace_by_parts(Module& module, Graph& graph, OpId id, Diags& diags,
                                      const ShapeValues* shapes = nullptr);

}  // namespace weftc

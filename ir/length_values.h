// The values that hold run-time lengths: one for each length, so that extents of equal length have one count.
#pragma once
#include "ir/module.h"

namespace weftc {

/// The scalar of int64 that holds `length` in the module's graph: found again, or computed from the lengths of the
/// inputs by ops that stand behind these. Every name in the length must have a value in Module::lengths.
ValueId length_value(Module& module, Graph& graph, const Length& length);
/// Gives extents of the op's results whose lengths are known the values that hold these. False if there are none, in a
/// branch or loop.
bool count_lengths(Module& module, Graph& graph, OpId id);
/// True if all names in the length have a value in Module::lengths.
bool has_values(const Module& module, const Length& length);

}  // namespace weftc

// What composite ops demand of run-time lengths (relate_lengths.cpp): the passes before relate-lengths replace them.
#pragma once
#include "ir/op_def.h"

namespace weftc {

/// Adds to the module's relations what the composite ops of a graph and of its regions demand beside their parts.
void relate_composites(Module& module, const Graph& graph, Diags& diags);

}  // namespace weftc

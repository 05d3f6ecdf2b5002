// What nodes demand of run-time lengths (relate_lengths.cpp) that the passes before relate-lengths replace or remove.
#pragma once
#include "ir/module.h"

namespace weftc {

/// Adds to the module's relations what composite ops demand beside their parts, and ops that are read for their shapes
/// only.
void relate_nodes(Module& module, Diags& diags);

}  // namespace weftc

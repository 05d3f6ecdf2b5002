// What composite ops demand of run-time lengths (relate_lengths.cpp): the passes before relate-lengths replace them.
#pragma once
#include "ir/module.h"

namespace weftc {

/// Adds to the module's relations what composite ops demand beside their parts.
void relate_composites(Module& module, Diags& diags);

}  // namespace weftc

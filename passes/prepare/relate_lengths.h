// What nodes demand of run-time lengths (relate_lengths.cpp) that the passes before relate-lengths replace or remove.
#pragma once
#include "ir/module.h"

namespace weftc {

/// As messages name the node that an op comes from: "node 'scale' (Mul)".
std::string node_text(const Module& module, const Op& op);

/// Adds to the module's relations what composite ops demand beside their parts, and ops that are read for their shapes
/// only.
void relate_nodes(Module& module, Diags& diags);

}  // namespace weftc

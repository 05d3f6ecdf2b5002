// Demands on run-time lengths (relate_lengths.cpp) by nodes that passes before relate-lengths replace or remove.
#pragma once
#include "ir/module.h"

namespace weftc {

/// Names the node that an op comes from, as messages do: "node 'scale' (Mul)".
std::string node_text(const Module& module, const Op& op);

/// Adds the demands of composite ops that their parts do not imply, and those of ops that are read only for their
/// shapes, to the module's relations.
void relate_nodes(Module& module, Diags& diags);

}  // namespace weftc

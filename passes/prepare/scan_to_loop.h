// Converts a Scan of ONNX to a Loop, in two halves: the Loop has to get its types between them.
#pragma once
#include "ir/op_def.h"

namespace weftc {

/// Adds a Loop before a Scan whose operands have types; its results and the ops of its body have none yet. Nothing
/// after reporting.
std::optional<OpId> add_loop_of_scan(Module& module, Graph& graph, OpId scan, Diags& diags);
/// Replaces the Scan by its Loop, which has types now; false after reporting.
bool replace_scan(Module& module, Graph& graph, OpId scan, OpId loop, Diags& diags);

}  // namespace weftc

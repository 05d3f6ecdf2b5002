// Turns operands into attributes (ConstantOperand of an op's record) as soon as they are known.
#pragma once
#include "ir/module.h"

namespace weftc {

/// Moves the operands of an op that are constants into their attributes, where these can hold them; false after
/// reporting.
bool absorb_constants(Module& module, Graph& graph, OpId id, Diags& diags);
/// Removes the operands that gave an op its shape, which the types of its results and its attributes now contain.
void drop_shape_operands(Module& module, Graph& graph, OpId id);

}  // namespace weftc

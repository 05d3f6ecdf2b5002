// Lengths that data decides, where an op takes them for others:
//
//   ScatterND(%x, %found i64[k<=32, 1], %rows f32[16, 4])   ->   %found cut to min(k, 16), then zeros after it up to
//   16,
//                                                                and the relation k = 16
//
// A request cannot be checked for such a length before the program runs, hence no kernel may rely on the relation: the
// op gets operands of one length, whatever data says.
#pragma once
#include "ir/module.h"

namespace weftc {

/// Gives the operands of a typed op of the module's graph the lengths that the op takes theirs for, and adds the
/// relations. True where the op has other operands now: it is to be typed again.
bool fit_counts(Module& module, Graph& graph, OpId id, const ShapeValues& shapes);
/// The same for the operand of a Reshape that has no type yet, to a shape of numbers.
void fit_reshaped(Module& module, Graph& graph, OpId id, const ShapeValues& shapes);

}  // namespace weftc

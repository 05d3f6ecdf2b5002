// The ways in which a group of ops grows into a kernel, in the order in which decide_fusion tries them. Each has a file
// of its name with a picture of the ops that it takes in.
#pragma once
#include "passes/fusion/fusion_state.h"

namespace weftc {

/// Each of these takes an op that is in no group yet. This one starts the kernel of a contraction (MatMul, Gemm,
/// convolution) at `root`: adds the pointwise ops that follow it, then reshapes and transpositions of the result.
void grow_contraction(FusionState& state, OpId root);

/// Starts the kernel of a reduction at `root`: adds reductions over the same axes of the same shape, and the pointwise
/// ops before, between and after them.
void grow_reduction(FusionState& state, OpId root);

/// Adds a pointwise op to the pointwise kernels of its operands, which joins these, or starts a kernel.
void grow_pointwise(FusionState& state, OpId id);

}  // namespace weftc

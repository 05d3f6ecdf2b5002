// Which kernels the entries of a schedule's `kernels:` mean.
//
//   h_mlp_c_fc                a kernel, as `weft explain` prints it
//   h.0.mlp.c_fc              a node or value that one kernel computes; equal layers share that kernel
//   h.0.mlp.c_fc/MatMul       a part of a decomposed node, or a value inside a kernel
//   "h.{l}.mlp.c_fc", "*fc"   all kernels of such names, or of such nodes and values
//   h_update_in_place         the copy of a kernel for launches that update a state: the kernel
#pragma once
#include <vector>

#include "passes/plan/plan_parts.h"

namespace weftc {

/// The schedule's pin of each kernel, null where there is none. Reports pins that match nothing, nodes that several
/// kernels compute, and kernels that two pins mean.
std::vector<const KernelPin*> pins_of_kernels(const PlanDraft& draft);

}  // namespace weftc

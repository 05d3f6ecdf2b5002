// Which kernels the entries of a schedule's `kernels:` mean.
//
//   h_mlp_c_fc                a kernel, as `weft explain` prints it
//   h.0.mlp.c_fc              a node or value that one kernel computes; equal layers share that kernel
//   "h.{l}.mlp.c_fc", "*fc"   all kernels of such names, or of such nodes and values
#pragma once
#include <vector>

#include "ir/plan.h"
#include "ir/schedule.h"

namespace weftc {

/// The pin of each kernel, null where there is none. Reports pins that match nothing, nodes that several kernels
/// compute, and kernels that two pins mean.
std::vector<const KernelPin*> pins_of_kernels(const Plan& plan, const std::vector<KernelPin>& pins, Diags& diags);

}  // namespace weftc

// Which kernels the entries of a schedule's `kernels:` mean.
//
//   h.0.mlp.c_fc             a node that one kernel computes; equal layers share that kernel
//   soft                     a node of several kernels: the only one of them for which the strategy is legal
//   h_mlp_c_fc               a kernel, as `weft explain` prints it, where no node has that name
//   h.0.mlp.fc_out           a value that one kernel computes
//   soft/ReduceMax           a part of a decomposed node, or a value inside a kernel
//   "h.{l}.mlp.c_fc", "*fc"  all nodes and kernels of such names, or else all such values, or parts
//   h_update_in_place        the copy of a kernel for launches that update a state: the kernel
#pragma once
#include <functional>
#include <vector>

#include "passes/plan/plan_parts.h"

namespace weftc {

/// Whether the strategy of a pin is legal for a kernel, given by its number.
using IsLegalPin = std::function<bool(const KernelPin&, size_t)>;

/// The schedule's pin of each kernel; null where the schedule pins nothing. Reports pins that match nothing, names that
/// may mean each of several kernels, and kernels that two pins mean.
std::vector<const KernelPin*> pins_of_kernels(const PlanDraft& draft, const IsLegalPin& is_legal);
/// Gives each kernel its `pin_name`.
void name_kernels_for_pins(PlanDraft& draft);

}  // namespace weftc

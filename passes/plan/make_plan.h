// From the fused graph to the Plan (ir/README.md, P1-P8): kernels, weights, buffers, steps, signals, positions.
#pragma once
#include <optional>

#include "ir/plan.h"

namespace weftc {

/// The module must be in form Fused and outlive the Plan. Nothing after reporting what is not supported.
std::optional<Plan> make_plan(const Module& module, const Target& target, Diags& diags);

}  // namespace weftc

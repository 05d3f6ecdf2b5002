// A kernel that might be, for the rules of strategies to judge before fusion decides.
#pragma once
#include "ir/module.h"
#include "ir/plan.h"

namespace weftc {

/// The kernel of `members` (in graph order, from one place), with every operand and result row-major in memory: views
/// and literals that they read come along, the last member's result is the only one.
Kernel trial_kernel(const Module& module, const Graph& graph, const std::vector<OpId>& members);

}  // namespace weftc

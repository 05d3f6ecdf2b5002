// A kernel that might be, for the rules of strategies to judge before fusion decides.
#pragma once
#include <functional>

#include "ir/module.h"
#include "ir/plan.h"

namespace weftc {

/// The kernel of `members` (in graph order, from one place), with every operand and result row-major in memory. Views
/// and literals that they read are repeated, except for those whose results lie `in_memory`. The last member's result
/// is the only one.
Kernel trial_kernel(const Module& module, const Graph& graph, const std::vector<OpId>& members,
                    const std::function<bool(OpId)>& in_memory);

}  // namespace weftc

// Which kernels are tuned: what the command line says of them.
#pragma once
#include <vector>

#include "cli/options.h"
#include "ir/base/diag.h"
#include "passes/plan/kernel_candidates.h"

namespace weftc {

/// Reports kernels that the command line names and for which there is nothing to choose.
void check_named_kernels(const Options& options, const Plan& plan, const std::vector<KernelCandidates>& kernels,
                         Diags& diags);
/// Whether programs are timed with one thread a rank.
bool has_one_thread(const Options& options);
/// Leaves out candidates by one thread, and kernels that have no others.
void drop_one_thread(std::vector<KernelCandidates>& kernels);

}  // namespace weftc

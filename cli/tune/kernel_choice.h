// The choice of kernels to tune, from the command line.
#pragma once
#include <vector>

#include "cli/options.h"
#include "ir/base/diag.h"
#include "passes/plan/kernel_candidates.h"

namespace weftc {

/// Reports kernels on the command line that have no alternatives.
void check_named_kernels(const Options& options, const Plan& plan, const std::vector<KernelCandidates>& kernels,
                         Diags& diags);
/// Whether programs are timed with one thread per rank.
bool has_one_thread(const Options& options);
/// Drops candidates with one thread, and kernels that have no others.
void drop_one_thread(std::vector<KernelCandidates>& kernels);

}  // namespace weftc

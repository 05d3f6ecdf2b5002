// Times of a profile in place of the cost model's, and what such a profile must have been measured of.
#pragma once
#include "cli/profile_file.h"
#include "ir/module.h"
#include "ir/schedule.h"
#include "passes/cost/block_costs.h"

namespace weftc {

/// What profiles call a block of the Plan: as tables of an order have it, or the block's own name where it runs once.
/// The module has a pipeline.
std::string name_of_block(const Plan& plan, const Module& module, const Schedule& schedule, int block);

/// Of inputs, outputs and nodes; and of how many micro-batches run which nodes on which ranks. Orders, transforms and
/// strategies of kernels change neither.
struct Fingerprints {
  std::string model, stages;
};
Fingerprints fingerprints_of(const Plan& plan, const Module& module);

/// False after reporting that the profile was measured of something else.
bool is_of_same(const Profile& profile, const Fingerprints& wanted, Diags& diags);

/// Blocks and transfers take what was measured. False after reporting that the profile is of another model, of other
/// stages, or lacks one of them.
bool take_measured_times(BlockCosts& costs, const Plan& plan, const Module& module, const Schedule& schedule,
                         const Profile& profile, Diags& diags);

/// "measured times: a.forward 12 us, a.backward 20 us", or "predicted times: ...".
std::string times_text(const BlockCosts& costs, const Plan& plan, const Module& module, const Schedule& schedule,
                       bool are_measured);

}  // namespace weftc

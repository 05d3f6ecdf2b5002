// Uses times of a profile instead of the cost model's, and checks that the profile belongs to the program.
#pragma once
#include "cli/profile_file.h"
#include "ir/module.h"
#include "ir/schedule.h"
#include "passes/cost/block_costs.h"

namespace weftc {

/// The name of a Plan's block in profiles: the name in tables of an order, or the block's own name if it runs once. The
/// module must have a pipeline.
std::string name_of_block(const Plan& plan, const Module& module, const Schedule& schedule, int block);

/// `model` covers inputs, outputs and nodes; `stages` covers the number of micro-batches and the ranks of each node.
/// Orders, transforms and strategies of kernels change neither.
struct Fingerprints {
  std::string model, stages;
};
Fingerprints fingerprints_of(const Plan& plan, const Module& module);

/// False after reporting that the profile belongs to another program.
bool is_of_same(const Profile& profile, const Fingerprints& wanted, Diags& diags);

/// Sets the costs of blocks and transfers to measured times. False after reporting that the profile is for another
/// model or other stages, or lacks a time.
bool take_measured_times(BlockCosts& costs, const Plan& plan, const Module& module, const Schedule& schedule,
                         const Profile& profile, Diags& diags);

/// "measured times: a.forward 12 us, a.backward 20 us", or "predicted times: ...".
std::string times_text(const BlockCosts& costs, const Plan& plan, const Module& module, const Schedule& schedule,
                       bool are_measured);

}  // namespace weftc

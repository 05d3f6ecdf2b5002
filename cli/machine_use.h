// The machine that predictions are for.
#pragma once
#include <optional>

#include "cli/options.h"
#include "ir/machine.h"
#include "ir/plan.h"

namespace weftc {

/// The machine of --machine, or the usual one of the target, with the figures of --ceiling in place of its own. A link
/// or latency of --ceiling stands for the whole network. Nothing after reporting: no such file, or it is for another
/// target.
std::optional<Machine> machine_for(const Options& options, Diags& diags);
/// True if the machine has all ranks of the plan. False after reporting.
bool has_all_ranks(const Machine& machine, const Plan& plan, const Options& options, Diags& diags);
/// Whose figures predictions take, and the most important of them, for people.
std::string figures_text(const Machine& machine);

}  // namespace weftc

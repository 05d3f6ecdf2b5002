// The machine of predictions.
#pragma once
#include <optional>

#include "cli/options.h"
#include "ir/machine.h"
#include "ir/plan.h"

namespace weftc {

/// The machine of --machine, or the target's default, with the figures of --ceiling instead of its own. A link or
/// latency of --ceiling applies to the whole network. Returns nullopt after reporting a missing file, or one for
/// another target.
std::optional<Machine> machine_for(const Options& options, Diags& diags);
/// True if the machine has all ranks of the plan. False after reporting.
bool has_all_ranks(const Machine& machine, const Plan& plan, const Options& options, Diags& diags);
/// The source of the figures that predictions use, and the most important of them, for people.
std::string figures_text(const Machine& machine);

}  // namespace weftc

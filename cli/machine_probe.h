// A small model whose steps tell what a machine can do: products, memory, functions, collectives.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cli/trace_file.h"
#include "ir/machine.h"

namespace weftc {

/// Seconds of each step, by name.
using StepSeconds = std::map<std::string, double>;
/// Of the rank that came last, which waited for nobody; of all iterations this quantile (block_times.h).
StepSeconds seconds_of_steps(const Trace& trace, double part);

/// The text of the model for so many ranks that each run it on their own values. Without `computes`: collectives only.
std::string probe_model(int ranks, bool computes);
/// And of its schedule.
std::string probe_schedule(int ranks);

/// What one rank does at best while all others do the same. The shortest run of a step is one that had a core for
/// itself: of ranks that share cores each has a part of that.
Ceilings probed_ceilings(const StepSeconds& steps, int ranks, int cores);
/// The curves of collectives among so many ranks.
std::vector<TimeCurve> probed_curves(const StepSeconds& steps, int ranks);

}  // namespace weftc

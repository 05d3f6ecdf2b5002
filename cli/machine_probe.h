// A small model whose steps measure a machine: products, memory, functions, collectives.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cli/trace_file.h"
#include "ir/machine.h"

namespace weftc {

/// Seconds of each step, by name.
using StepSeconds = std::map<std::string, double>;
/// The time of each step on the rank that arrived last, and so did not wait. It is the `part`-quantile of all
/// iterations (block_times.h).
StepSeconds seconds_of_steps(const Trace& trace, double part);

/// The text of the model for this number of ranks, each with values of its own. Without `computes`: collectives only.
std::string probe_model(int ranks, bool computes);
/// The text of its schedule.
std::string probe_schedule(int ranks);

/// The best rates of one rank while all others do the same. The shortest run of a step had a core for itself; ranks
/// that share cores get a fraction of its rate.
Ceilings probed_ceilings(const StepSeconds& steps, int ranks, int cores);
/// The curves of collectives among this number of ranks.
std::vector<TimeCurve> probed_curves(const StepSeconds& steps, int ranks);

}  // namespace weftc

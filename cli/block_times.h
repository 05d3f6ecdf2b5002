// The times of blocks and transfers, from a trace.
#pragma once
#include "cli/compilation.h"
#include "cli/profile_file.h"
#include "cli/trace_file.h"

namespace weftc {

/// The `part`-quantile of the values: 0.5 is the median. NaN without values.
double quantile(std::vector<double> values, double part);

/// The profile of a compilation without times: names, places and counts of its blocks, and its transfers between
/// places. A program without a pipeline has its passes as blocks: "run", or "forward", "backward" and "update".
Profile blank_profile(const Compilation& compilation);

/// Adds the times. A step's time is the `part`-quantile of its runs in all micro-batches and iterations, without
/// waiting. A block's time is the sum of its steps, on the slowest of its ranks. Returns why the trace belongs to
/// another program, or "".
std::string add_times(Profile& profile, const Compilation& compilation, const Trace& trace, double part);

}  // namespace weftc

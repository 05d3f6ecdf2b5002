// The times of blocks and transfers out of a trace.
#pragma once
#include "cli/compilation.h"
#include "cli/profile_file.h"
#include "cli/trace_file.h"

namespace weftc {

/// The number at this part of the way from the least to the largest: 0.5 is the median. NaN where there are none.
double quantile(std::vector<double> values, double part);

/// What the blocks of a compilation are called, where they run and how often; of a program without a pipeline, its
/// passes: "run", or "forward", "backward" and "update". And what moves between places. Times are missing.
Profile blank_profile(const Compilation& compilation);

/// Adds the times. A step takes this quantile of its runs in all micro-batches and iterations, without what it waited;
/// a block takes the sum of its steps, on the slowest of its ranks. Why the trace is of another program, or "".
std::string add_times(Profile& profile, const Compilation& compilation, const Trace& trace, double part);

}  // namespace weftc

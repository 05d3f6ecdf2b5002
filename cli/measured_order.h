// The measured order of a pipeline, from a trace.
#pragma once
#include "cli/trace_file.h"

namespace weftc {

/// One iteration; nullopt if the trace is not of a pipeline. A turn of a rank lasts from the first begin to the last
/// end of its block's steps for a micro-batch. The rank is busy while any of these steps runs, except for waits inside.
/// Steps that transfer data between blocks belong to no turn. Memory is unknown.
std::optional<OrderPicture> measured_order(const Trace& trace, int iteration);

/// The fraction of time in which a rank runs no step of a micro-batch's block, as a mean over ranks, and the median of
/// all iterations. nullopt if the trace is not of a pipeline.
std::optional<double> measured_bubble(const Trace& trace);

}  // namespace weftc

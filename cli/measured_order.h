// The order of a pipeline as it really ran, from a trace.
#pragma once
#include "cli/trace_file.h"

namespace weftc {

/// One iteration; nothing where the trace is of no pipeline. A turn of a rank is from the first begin of a step of its
/// block and micro-batch to the last end; it is busy while any of these steps runs, waits inside left out. Steps that
/// bring data from one block to another are of no turn. Memory is unknown.
std::optional<OrderPicture> measured_order(const Trace& trace, int iteration);

/// The part of the time in which a rank runs no step of a micro-batch's block, in the mean over ranks: the median of
/// all iterations. Nothing where the trace is of no pipeline.
std::optional<double> measured_bubble(const Trace& trace);

}  // namespace weftc

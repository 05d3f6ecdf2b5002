// Shared memory of ranks that a launcher started on one machine. Rank 0 creates it without a name, and passes it to the
// others over a socket. Both vanish with their processes, so that a job that fails at its start leaves nothing.
#pragma once
#include "agreement.h"
#include "launch.h"
#include "world.h"

namespace weft {

/// Returns when all ranks of the job have arrived. Throws Failure on every rank that is present if two ranks do not
/// agree (it names them), if one ends before all have arrived, or if some do not arrive in time.
World meet(const WorldShape& shape, const Launched& launched, const Agreement& agreement, double timeout);

/// Memory without a name for a world, fully allocated.
int make_segment(int64_t bytes);

}  // namespace weft

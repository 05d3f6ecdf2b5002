// How ranks that a launcher started on one machine come to the memory that they share: rank 0 makes it without a name,
// and hands it to the others over a socket. Both vanish with their processes: nothing stays of a job that fails at its
// start, however it ends.
#pragma once
#include "agreement.h"
#include "launch.h"
#include "world.h"

namespace weft {

/// All ranks of the job meet; nobody goes on before all have come. Throws Failure on every rank that is there: where
/// two ranks do not agree (which are named), where one ends before all have come, and where some do not come in time.
World meet(const WorldShape& shape, const Launched& launched, const Agreement& agreement, double timeout);

/// Memory for a world without a name, all of which is there.
int make_segment(int64_t bytes);

}  // namespace weft

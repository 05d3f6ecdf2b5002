// Generations from the command line: a prompt in a file, one text or several.
#pragma once
#include "options.h"
#include "rank_base.h"
#include "run_report.h"

namespace weft {

/// All ranks call it. Generates a text --iterations times, each from the initial states, and writes the last one to
/// tokens.npy. Rank 0 records the times.
void run_generations(RankBase& rank, const Options& options, RunReport& report);

}  // namespace weft

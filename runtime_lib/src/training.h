// The loop over the steps of a training.
#pragma once
#include "options.h"
#include "rank_base.h"

namespace weft {

/// Throws Failure (usage or wrong input) if the program cannot be trained with these options.
void check_training(const Executable& executable, const Options& options);
/// All ranks call it. Runs steps from the first, or from the step of --resume, with a log, progress and checkpoints.
/// Returns the exit code: success, or the code of a training that was asked to end before its last step.
int run_training(RankBase& rank, const Options& options);

}  // namespace weft

// The loop over the steps of a training.
#pragma once
#include "options.h"
#include "rank_base.h"

namespace weft {

/// Throws Failure (usage or wrong input) where the program cannot be trained as the options say.
void check_training(const Executable& executable, const Options& options);
/// All ranks together: steps from the first, or from that of --resume, with a log, progress and checkpoints. The exit
/// code: that of a success, or of a training that was asked to end before its last step.
int run_training(RankBase& rank, const Options& options);

}  // namespace weft

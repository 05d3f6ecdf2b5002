// Checkpoints of a training: DIR/step-000500 holds each state as one whole .npy file, whatever ranks held it, and
// state.json; DIR/latest names the last one. A checkpoint is there as a whole or not at all.
#pragma once
#include <optional>
#include <string>

#include "options.h"
#include "rank_base.h"

namespace weft {

/// Where a training goes on.
struct Progress {
  int64_t step = 0;  // steps that are done
  bool shuffles = false;
  uint64_t seed = 0;
  int64_t batch = 0;                        // samples that a step takes
  std::optional<int64_t> random_seed = {};  // of what the model draws; checkpoints of older programs do not say it
  bool evaluation_is_due = false;           // after that step; a run that was asked to end has left it out
};

/// All ranks together: writes the states and where the training stands, and removes older checkpoints beyond
/// `options.keep`. Throws Failure (environment), with the previous checkpoint left as it is.
void write_checkpoint(RankBase& rank, const Options& options, const Progress& progress);

/// The folder of the checkpoint that --resume names: itself, or the latest one in it.
std::string checkpoint_folder(const std::string& given);
/// What its state.json says. Throws Failure (wrong input) where the folder is no complete checkpoint, or one of other
/// states than the program's.
Progress read_checkpoint(const Executable& executable, const std::string& folder);
/// Throws Failure (wrong input) where a file has other bytes than were written. Older checkpoints have no checksums.
void check_sums(const std::string& folder);

}  // namespace weft

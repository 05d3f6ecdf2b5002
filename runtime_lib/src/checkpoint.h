// Checkpoints of a training: DIR/step-000500 holds state.json and each state as one whole .npy file, for any ranks.
// DIR/latest names the last one. A checkpoint is written completely or not at all.
#pragma once
#include <optional>
#include <string>

#include "options.h"
#include "rank_base.h"

namespace weft {

/// The point from which a training continues.
struct Progress {
  int64_t step = 0;  // steps that are done
  bool shuffles = false;
  uint64_t seed = 0;
  int64_t batch = 0;                        // samples that a step takes
  std::optional<int64_t> random_seed = {};  // of the model's random operators; not in checkpoints of older programs
  bool evaluation_is_due = false;           // after that step: a run that was asked to end skips it
};

/// All ranks call it. Writes the states and the progress, and removes older checkpoints beyond `options.keep`. Throws
/// Failure (environment), with the previous checkpoint left as it is.
void write_checkpoint(RankBase& rank, const Options& options, const Progress& progress);

/// The folder of the checkpoint that --resume names: itself, or the latest one in it.
std::string checkpoint_folder(const std::string& given);
/// Reads its state.json. Throws Failure (wrong input) if the folder is not a complete checkpoint, or has other states
/// than the program.
Progress read_checkpoint(const Executable& executable, const std::string& folder);
/// Throws Failure (wrong input) if a file has other bytes than were written. Older checkpoints have no checksums.
void check_sums(const std::string& folder);

}  // namespace weft

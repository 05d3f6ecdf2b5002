// The folder to which a training writes its checkpoints: it locks the folder for one run, and removes old checkpoints.
#pragma once
#include <string>

namespace weft {

/// The file that marks a folder as a complete checkpoint.
inline constexpr const char* kStateFile = "state.json";

/// One run at a time, until its destruction or its process's end. Throws Failure (environment) while another run has
/// the folder.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(const std::string& path);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

 private:
  int lock_ = -1;
};

/// Removes all checkpoints but the newest `keep` (0: all stay), by the time at which they were written: steps of an
/// earlier run may have larger numbers.
void remove_old_checkpoints(const std::string& folder, int keep);
/// The same at the start of a run, including remains of killed runs. The checkpoints `latest` and `resumed` stay: the
/// next run continues from the former, this run from the latter.
void tidy_checkpoints(const std::string& folder, int keep, const std::string& latest, const std::string& resumed);

}  // namespace weft

// The folder that a training writes its checkpoints to: which run may write there, and which checkpoints stay.
#pragma once
#include <string>

namespace weft {

/// The file that a folder has when it is a complete checkpoint.
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
/// The same at the start of a run, with what killed runs have left. The checkpoints `latest` and `resumed`
/// stay: from the one the next run goes on, from the other this one.
void tidy_checkpoints(const std::string& folder, int keep, const std::string& latest, const std::string& resumed);

}  // namespace weft

// Measurements in a file beside the schedule that tuning writes (BEST.yaml.trials), so that a later run does not repeat
// them. A record belongs to a pair: a trial and its reference. Its key is made of the sources of both, the compiler,
// the runtime library, the machine and the arguments of the runs. If any of these changes, the pair is measured again.
// A line is written as soon as it is known.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "cli/options.h"
#include "cli/timed_run.h"

namespace weftc {

struct TrialRecord {
  double ms = 0;            // of an invocation, or of a launch
  Interval ratio{1, 1, 1};  // relative to its reference
  bool is_final = false;    // it was measured in pairs
};

class TrialRecords {
 public:
  /// Reads the file, if it exists, and skips malformed lines.
  explicit TrialRecords(std::string path);

  std::optional<TrialRecord> find(const std::string& key) const;
  /// Appends the record; `what` is for people. False if the file cannot be written.
  bool add(const std::string& key, const TrialRecord& record, const std::string& what);
  size_t known() const { return records_.size(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::map<std::string, TrialRecord> records_;
};

/// The influences on times other than the sources: compiler, runtime library, processor, arguments of runs.
std::string machine_text(const Options& options);
/// The processor's line of /proc/cpuinfo, "model name : ..."; empty where it has none.
std::string processor_line();
/// "Intel Xeon" of "model name : Intel Xeon".
std::string processor_name();
/// The key of these texts.
std::string trial_key(const std::vector<std::string>& texts);

}  // namespace weftc

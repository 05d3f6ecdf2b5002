// What was measured, in a file beside the schedule that tuning writes (BEST.yaml.trials): a later run does not measure
// it again. A record is of a pair, what was tried and what it was compared with; its key is made of the sources of
// both, of the compiler, the runtime library, the machine and the arguments of the runs, so that whatever of these
// changes is measured anew. A line is written as soon as it is known.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "cli/options.h"
#include "cli/timed_run.h"

namespace weftc {

struct TrialRecord {
  double ms = 0;            // of an invocation, or of a launch
  Interval ratio{1, 1, 1};  // to what it was compared with
  bool is_final = false;    // measured in pairs
};

class TrialRecords {
 public:
  /// Reads the file, if it is there; lines that are none are left out.
  explicit TrialRecords(std::string path);

  std::optional<TrialRecord> find(const std::string& key) const;
  /// Writes the record behind the others; `what` is for people. False if the file cannot be written.
  bool add(const std::string& key, const TrialRecord& record, const std::string& what);
  size_t known() const { return records_.size(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::map<std::string, TrialRecord> records_;
};

/// What figures depend on beside the sources: compiler, runtime library, processor, arguments of runs.
std::string machine_text(const Options& options);
/// The processor's line of /proc/cpuinfo, "model name : ..."; empty where it has none.
std::string processor_line();
/// "Intel Xeon" of "model name : Intel Xeon".
std::string processor_name();
/// The key of what these texts say.
std::string trial_key(const std::vector<std::string>& texts);

}  // namespace weftc

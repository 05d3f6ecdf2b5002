// Compares whole programs. Candidates are schedule files. They are built, their outputs are compared with the first
// one's, and they are timed in turns. A winner must beat the first one in pairs of runs.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cli/build.h"
#include "cli/compilation.h"
#include "cli/tune/trial_records.h"

namespace weftc {

/// Additions to the schedule.
struct Choice {
  std::vector<TransformStep> steps;
  std::vector<KernelPin> pins;
  std::vector<std::string> comments;  // of the pins
};

/// A candidate in progress: a schedule, its executable, and its times.
struct Trial {
  std::string what;
  Choice choice;
  std::string key = {};                    // the key of its record; empty: it cannot be compiled
  double predicted = 0;                    // seconds of an invocation
  std::string program = {};                // empty: it failed before it could be timed
  int exit_code = 0;                       // of the failure
  std::string result = {};                 // for the table
  std::vector<double> ms = {};             // the median of each run
  std::vector<double> ratio = {};          // relative to the first trial in the same round
  std::optional<TrialRecord> record = {};  // its stored record
};

/// Keeps the first trial and those with the shortest predicted times, at most `most`.
void keep_promising(std::vector<Trial>& trials, size_t most);

class ProgramTrials {
 public:
  using ScheduleText = std::function<std::optional<std::string>(const Choice&, Diags&)>;
  ProgramTrials(const Options& options, const WorkFolder& work, const BuildCache& cache, TrialRecords& records,
                ScheduleText text)
      : options_(options), work_(work), cache_(cache), records_(records), text_(std::move(text)) {}

  /// Sets the outputs to compare and their tolerance.
  void set_outputs(std::vector<std::string> names, double tolerance) {
    outputs_ = std::move(names), tolerance_ = tolerance;
  }
  /// Writes the user's schedule with the choice to a file; "" after reporting.
  std::string schedule_file(const Choice& choice, Diags& diags) const;
  /// Sets each trial's key, which is made of its sources, and its time by the cost model.
  void predict(std::vector<Trial>& trials);
  /// The trial that is significantly faster than the first one in `pairs` pairs of runs, or the first. Null after
  /// reporting that the first one does not run, or if the process was asked to end.
  Trial* fastest(const std::string& name, std::vector<Trial>& trials, int pairs, Diags& diags);
  /// The exit code if the schedule itself cannot be built or run on this machine.
  int machine_lacks() const { return machine_lacks_; }
  double seconds_of_build() const { return seconds_of_build_; }

 private:
  std::unique_ptr<Compilation> compile(const Trial& trial, Diags& diags) const;
  void build(Trial& trial);
  bool build_and_compare(const std::string& name, std::vector<Trial>& trials, Diags& diags);
  std::string first_difference(Trial& trial, const Trial& reference);
  Timing time(const Trial& trial) const { return time_run(trial.program, iterations_, options_.run_args); }
  Timing time_within_bounds(const Trial& reference);
  bool choose_iterations(Trial& reference, Diags& diags);
  bool report_reference(const Trial& reference, Diags& diags);
  void run_round(std::vector<Trial*>& runners);
  void race(std::vector<Trial>& trials);
  void race_in_pairs(Trial& winner, Trial& reference, int pairs);

  const Options& options_;
  const WorkFolder& work_;
  const BuildCache& cache_;
  TrialRecords& records_;
  const ScheduleText text_;
  std::vector<std::string> outputs_;
  double tolerance_ = 0;
  std::string machine_;  // once it is needed
  int machine_lacks_ = 0;
  int built_ = 0, iterations_ = 0, rounds_ = 0;
  double seconds_of_build_ = 0;
};

}  // namespace weftc

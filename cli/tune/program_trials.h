// Races whole programs: candidates as schedule files, built, compared with the first of them, timed in turns. A winner
// must beat the first one in pairs of runs.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cli/build.h"
#include "cli/compilation.h"
#include "cli/tune/trial_records.h"

namespace weftc {

/// What is added to the schedule.
struct Choice {
  std::vector<TransformStep> steps;
  std::vector<KernelPin> pins;
  std::vector<std::string> comments;  // of the pins
};

/// A candidate on its way: a schedule, its executable, and how long that takes.
struct Trial {
  std::string what;
  Choice choice;
  std::string key = {};                    // of its record; empty: it cannot be compiled
  double predicted = 0;                    // seconds of an invocation
  std::string program = {};                // empty: it did not come so far as to be timed
  int exit_code = 0;                       // of what failed
  std::string result = {};                 // for the table
  std::vector<double> ms = {};             // of a run, median
  std::vector<double> ratio = {};          // to the first trial, in the same round
  std::optional<TrialRecord> record = {};  // what is known of it
};

/// The trials that are worth a program: the first one, and those that are predicted to take least, at most `most`.
void keep_promising(std::vector<Trial>& trials, size_t most);

class ProgramTrials {
 public:
  using ScheduleText = std::function<std::optional<std::string>(const Choice&, Diags&)>;
  ProgramTrials(const Options& options, const WorkFolder& work, const BuildCache& cache, TrialRecords& records,
                ScheduleText text)
      : options_(options), work_(work), cache_(cache), records_(records), text_(std::move(text)) {}

  /// What outputs are compared by.
  void set_outputs(std::vector<std::string> names, double tolerance) {
    outputs_ = std::move(names), tolerance_ = tolerance;
  }
  /// A file with the schedule that the choice makes of the user's; "" after reporting.
  std::string schedule_file(const Choice& choice, Diags& diags) const;
  /// The sources of each trial as its key, and how long the cost model says that it takes.
  void predict(std::vector<Trial>& trials);
  /// The trial that is faster than the first one beyond doubt in `pairs` pairs of runs, or the first; null after
  /// reporting that the first one does not run, and where this program is to end.
  Trial* fastest(const std::string& name, std::vector<Trial>& trials, int pairs, Diags& diags);
  /// The exit code where the schedule itself cannot be built or run on this machine.
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

// Times strategies of one kernel in a program that does nothing else (passes/plan/lone_kernels.h). Each launch uses one
// strategy, and the trace of the run gives the time of each.
#pragma once
#include <string>
#include <vector>

#include "cli/build.h"
#include "cli/compilation.h"
#include "cli/tune/trial_records.h"
#include "passes/plan/lone_kernels.h"

namespace weftc {

/// A strategy of a kernel. The first of a list is the Plan's: its pin has no strategy.
struct KernelTrial {
  KernelPin pin;
  double ms = NAN;          // of the shortest launch; NaN: not timed
  Interval ratio{1, 1, 1};  // relative to the first
  bool is_known = false;    // from records
};

/// The ratio of each trial's time to the first trial's. `ms`: times of launches by trial, then by iteration. Iterations
/// are divided into about ten groups, each represented by its shortest launches. The interval is over the groups.
std::vector<Interval> ratios_of(const std::vector<std::vector<double>>& ms);

/// The fastest trial that is significantly faster than the first one, by more than noise, or null.
const KernelTrial* fastest_of(const std::vector<KernelTrial>& trials);

class KernelTrials {
 public:
  KernelTrials(const Options& options, const WorkFolder& work, const BuildCache& cache, TrialRecords& records)
      : options_(options), work_(work), cache_(cache), records_(records), machine_(machine_text(options)) {}

  /// Takes known trials from records, and builds and runs one program for the others. False after reporting, also if
  /// the process was asked to end.
  bool measure(const Compilation& c, const std::string& kernel, std::vector<KernelTrial>& trials, Diags& diags);
  /// The exit code of the last program that was built or run.
  int exit_code() const { return exit_code_; }

 private:
  std::optional<std::vector<Plan>> plans_of(const Compilation& c, const std::vector<KernelTrial>& trials,
                                            Diags& diags) const;
  std::vector<std::string> look_up(const Compilation& c, const std::vector<LoneKernel>& lone,
                                   std::vector<KernelTrial>& trials, Diags& diags) const;
  std::string build(const Plan& plan, const std::string& program);
  std::vector<std::vector<double>> run(const std::string& program, size_t launches, int iterations,
                                       std::string& failure);
  std::string time(const std::string& program, const std::vector<size_t>& of_step, std::vector<KernelTrial>& trials);

  const Options& options_;
  const WorkFolder& work_;
  const BuildCache& cache_;
  TrialRecords& records_;
  const std::string machine_;
  int built_ = 0, exit_code_ = 0;
};

}  // namespace weftc

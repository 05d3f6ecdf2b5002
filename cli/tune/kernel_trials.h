// Times strategies of one kernel in a program that does nothing else (passes/plan/lone_kernels.h): each launch stands
// for one of them, and the trace of the run says how long each took.
#pragma once
#include <string>
#include <vector>

#include "cli/build.h"
#include "cli/compilation.h"
#include "cli/tune/trial_records.h"
#include "passes/plan/lone_kernels.h"

namespace weftc {

/// A strategy of a kernel. The first of a list is the one that the Plan has: its pin has no strategy.
struct KernelTrial {
  KernelPin pin;
  double ms = NAN;          // of a launch, the shortest; NaN: it was not timed
  Interval ratio{1, 1, 1};  // to the first
  bool is_known = false;    // from records
};

/// Times of launches by trial, then by iteration: the ratio of each to the first trial. Every tenth or so of the
/// iterations gives one figure, its shortest launches; the interval is over these.
std::vector<Interval> ratios_of(const std::vector<std::vector<double>>& ms);

/// The trial that is faster than the first one beyond doubt, and by more than noise; null if there is none.
const KernelTrial* fastest_of(const std::vector<KernelTrial>& trials);

class KernelTrials {
 public:
  KernelTrials(const Options& options, const WorkFolder& work, const BuildCache& cache, TrialRecords& records)
      : options_(options), work_(work), cache_(cache), records_(records), machine_(machine_text(options)) {}

  /// Fills in what is known of the trials, and builds and runs one program for the others. False after reporting, also
  /// where this program is to end.
  bool measure(const Compilation& c, const std::string& kernel, std::vector<KernelTrial>& trials, Diags& diags);
  /// Of the last program that was built or run.
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

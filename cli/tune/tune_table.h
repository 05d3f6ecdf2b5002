// The table of trials, for standard output and the head of the schedule.
#pragma once
#include <string>
#include <vector>

#include "cli/table.h"
#include "cli/tune/kernel_trials.h"
#include "cli/tune/program_trials.h"

namespace weftc {

class TuneTable {
 public:
  /// Whole programs for a collective or a kernel; `chosen` is one of them, or null.
  void add(const std::string& name, const std::vector<Trial>& trials, const Trial* chosen);
  /// Strategies of a kernel.
  void add(const std::string& kernel, const std::vector<KernelTrial>& trials, const KernelTrial* chosen);
  /// A line without figures.
  void add(const std::string& name, const std::string& what, const std::string& result);
  std::string text() const { return table_text(rows_); }

 private:
  TableRows rows_ = {{"collective or kernel", "how", "ms", "of the first", "result"}};
};

/// A number with that many decimals.
std::string decimals(double value, int digits);

}  // namespace weftc

// Timed runs of compiled programs, and statistics of their times: medians, and ratios with an interval.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "cli/process.h"

namespace weftc {

inline constexpr double kRunSeconds = 600;  // time-out of a run

/// A timed run: milliseconds of an invocation, or the reason for a failure.
struct Timing {
  double ms = NAN;
  int exit_code = 0;
  std::string failure = {};
};

/// Times a run of `iterations` invocations. States are reset before the warm-up and before the invocations. The warm-up
/// is not longer than the run.
Timing time_run(const std::string& program, int iterations, const std::vector<std::string>& run_args);

/// "exit code 1: ...": how a program failed, with its message.
std::string failure_text(const Finished& finished);

/// NaN without values.
double median(std::vector<double> values);

/// The geometric mean of ratios and the ends of its 95 % interval (normal approximation).
struct Interval {
  double mean, low, high;
};
Interval interval_of(const std::vector<double>& ratios);

}  // namespace weftc

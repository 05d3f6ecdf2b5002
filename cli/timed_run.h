// Runs of compiled programs that are timed, and what their times say: medians, and ratios with an interval.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "cli/process.h"

namespace weftc {

inline constexpr double kRunSeconds = 600;  // after which a run is ended

/// A run that was timed: milliseconds of an invocation, or why there are none.
struct Timing {
  double ms = NAN;
  int exit_code = 0;
  std::string failure = {};
};

/// Times a run of `iterations` invocations. States begin anew in front of them and in front of the warm-up, which is
/// not the longer of the two.
Timing time_run(const std::string& program, int iterations, const std::vector<std::string>& run_args);

/// "exit code 1: ...": how a program failed, with what it said.
std::string failure_text(const Finished& finished);

/// NaN where there are none.
double median(std::vector<double> values);

/// The geometric mean of ratios and the ends of its 95 % interval (normal approximation).
struct Interval {
  double mean, low, high;
};
Interval interval_of(const std::vector<double>& ratios);

}  // namespace weftc

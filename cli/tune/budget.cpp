// Durations as text, and estimates of tuning: the number of programs times the time of one.
#include "cli/tune/budget.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace weftc {

std::optional<double> parse_duration(const std::string& text) {
  if (text.size() < 2 || text.find_first_not_of("0123456789.") != text.size() - 1) return {};
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() - 1 || !(number > 0) || !std::isfinite(number)) return {};
  switch (text.back()) {
    case 's':
      return number;
    case 'm':
      return number * 60;
    case 'h':
      return number * 3600;
    default:
      return {};
  }
}

std::string duration_text(double seconds) {
  constexpr double kMostSeconds = 120, kMostMinutes = 120;
  char text[32];
  if (seconds < kMostSeconds)
    std::snprintf(text, sizeof text, "%.0f s", std::ceil(seconds));
  else if (seconds < kMostMinutes * 60)
    std::snprintf(text, sizeof text, "%.0f min", std::ceil(seconds / 60));
  else
    std::snprintf(text, sizeof text, "%.1f h", seconds / 3600);
  return text;
}

double estimated_seconds(const TuneWork& work, const BuildTimes& times, int runs) {
  return static_cast<double>(work.kernel_programs) * times.kernel_program +
         static_cast<double>(work.candidates) * times.candidate +
         static_cast<double>(work.programs) * (times.program + runs * work.run_seconds);
}

}  // namespace weftc

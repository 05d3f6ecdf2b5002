// Times a program by its own latency table (--json), after a warm-up.
#include "cli/timed_run.h"

#include <algorithm>

#include "cli/json_items.h"
#include "ir/base/text.h"

namespace weftc {

Timing time_run(const std::string& program, int iterations, const std::vector<std::string>& run_args) {
  std::vector<std::string> command{program, "--random-inputs", "1", "--json", "--no-generate"};
  command.insert(command.end(), {"--warmup", std::to_string(std::min(2, iterations))});
  command.insert(command.end(), {"--iterations", std::to_string(iterations)});
  command.insert(command.end(), run_args.begin(), run_args.end());
  const Finished finished = run_program(command, kRunSeconds);
  if (finished.exit_code != 0) return {NAN, finished.exit_code, failure_text(finished)};
  const double ms = read_json_object(finished.out).number("latency_ms.median", NAN);
  return {ms, 0, std::isfinite(ms) ? "" : "the program tells no latency"};
}

std::string failure_text(const Finished& finished) {
  return ending_text(finished) + ": " + std::string(trim(finished.err));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n == 0 ? NAN : n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Interval interval_of(const std::vector<double>& ratios) {
  const double n = static_cast<double>(ratios.size());
  double sum = 0, squares = 0;
  for (const double r : ratios) sum += std::log(r);
  for (const double r : ratios) squares += (std::log(r) - sum / n) * (std::log(r) - sum / n);
  const double half = ratios.size() < 2 ? HUGE_VAL : 1.96 * std::sqrt(squares / (n - 1) / n);
  return {std::exp(sum / n), std::exp(sum / n - half), std::exp(sum / n + half)};
}

}  // namespace weftc

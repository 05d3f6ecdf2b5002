// One row a trial; the first of its kind has no ratio.
#include "cli/tune/tune_table.h"

#include <cmath>
#include <cstdio>

#include "passes/plan/kernel_candidates.h"

namespace weftc {

namespace {

std::string interval_text(const Interval& i) {
  return format("{} ({} .. {})", decimals(i.mean, 3), decimals(i.low, 3), decimals(i.high, 3));
}

}  // namespace

std::string decimals(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

void TuneTable::add(const std::string& name, const std::vector<Trial>& trials, const Trial* chosen) {
  for (const Trial& trial : trials) {
    std::string ms = trial.ms.empty() ? "" : decimals(median(trial.ms), 3), ratio;
    if (trial.record) {
      if (ms.empty()) ms = decimals(trial.record->ms, 3);
      ratio = trial.record->is_final ? interval_text(trial.record->ratio) : decimals(trial.record->ratio.mean, 3);
    }
    rows_.push_back({printable(name), trial.what, ms, ratio, &trial == chosen ? "chosen" : trial.result});
  }
}

void TuneTable::add(const std::string& kernel, const std::vector<KernelTrial>& trials, const KernelTrial* chosen) {
  for (const KernelTrial& trial : trials) {
    const bool is_first = &trial == trials.data(), is_timed = !std::isnan(trial.ms);
    rows_.push_back({printable(kernel), is_first ? "as it is" : strategy_text(trial.pin),
                     is_timed ? decimals(trial.ms, 4) : "", is_timed && !is_first ? interval_text(trial.ratio) : "",
                     &trial == chosen ? "chosen" : ""});
  }
}

void TuneTable::add(const std::string& name, const std::string& what, const std::string& result) {
  rows_.push_back({printable(name), what, "", "", result});
}

}  // namespace weftc

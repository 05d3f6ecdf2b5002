// Logs come from outside: each line is checked.
#include "cli/training_log.h"

#include <algorithm>
#include <cmath>

#include "cli/json_items.h"
#include "cli/process.h"
#include "ir/base/text.h"

namespace weftc {

namespace {

constexpr std::string_view kEvaluation = "eval_";

bool is_lower(const Series::Point& a, const Series::Point& b) { return a.value < b.value; }

/// How often a line says "null" for a number.
int64_t nulls_of(std::string_view line) {
  int64_t count = 0;
  for (size_t at = line.find(": null"); at != line.npos; at = line.find(": null", at + 1)) ++count;
  return count;
}

Series& series_of(TrainingLog& log, const std::string& name) {
  for (Series& each : log.series)
    if (each.name == name) return each;
  return log.series.emplace_back(Series{name, {}});
}

/// Adds a line to the log. False if it is not a line of a log.
bool take(TrainingLog& log, std::string_view line) {
  const JsonItem item = read_json_object(line);
  const double step = item.number("step", -1);
  if (!(step >= 1) || step != std::floor(step)) return false;
  log.not_finite += nulls_of(line);
  bool is_evaluation = false;
  for (const auto& [name, value] : item.numbers) {
    if (name == "step") continue;
    is_evaluation |= name.starts_with(kEvaluation);
    // A run that resumes from a checkpoint may repeat steps.
    std::vector<Series::Point>& points = series_of(log, name).points;
    while (!points.empty() && points.back().step >= step) points.pop_back();
    points.push_back({step, value});
  }
  log.steps += !is_evaluation;
  return true;
}

/// Sorts figures of steps before figures of evaluations, with the loss first.
void order(TrainingLog& log) {
  std::stable_sort(log.series.begin(), log.series.end(), [](const Series& a, const Series& b) {
    const auto rank = [](const Series& each) { return 2 * each.is_evaluation() + (each.figure() != "loss"); };
    return rank(a) < rank(b);
  });
}

}  // namespace

const Series::Point& Series::lowest() const { return *std::min_element(points.begin(), points.end(), is_lower); }
const Series::Point& Series::highest() const { return *std::max_element(points.begin(), points.end(), is_lower); }
bool Series::is_evaluation() const { return name.starts_with(kEvaluation); }
std::string Series::figure() const { return is_evaluation() ? name.substr(kEvaluation.size()) : name; }

const Series* TrainingLog::find(const std::string& series_name) const {
  for (const Series& each : series)
    if (each.name == series_name) return &each;
  return nullptr;
}

std::optional<TrainingLog> read_training_log(const std::string& file, Diags& diags) {
  const std::optional<std::string> text = read_file(file);
  if (!text) {
    diags.error("log-file", Loc::in_file(file), "the log cannot be read");
    return {};
  }
  TrainingLog log;
  log.name = file.substr(file.rfind('/') + 1);
  const std::vector<std::string> lines = split(*text, '\n');
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    if (trim(lines[i]).empty() || take(log, lines[i])) continue;
    diags.error("log-line", Loc::text(file, static_cast<int>(i) + 1, 1, lines[i].substr(0, 80)),
                "this is no line of a log: an object with the number of a 'step' is expected");
    return {};
  }
  std::erase_if(log.series, [](const Series& each) { return each.points.empty(); });
  if (log.series.empty()) {
    diags.error("log-empty", Loc::in_file(file), "there are no figures of steps in this log");
    return {};
  }
  order(log);
  return log;
}

}  // namespace weftc

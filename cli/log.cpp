// `weft log`: what trainings wrote with --log, as figures, a curve of the loss, and a page.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/page.h"
#include "cli/table.h"
#include "cli/training_log.h"
#include "cli/training_log_page.h"

namespace weftc {

namespace {

constexpr size_t kColumns = 72, kLines = 10;

std::string step_text(const Series::Point& point) {
  return figure_text(point.value) + " at " + std::to_string(static_cast<int64_t>(point.step));
}

std::string figures_text(const TrainingLog& log) {
  TableRows rows{{"figure", "first", "last", "lowest", "highest"}};
  for (const Series& series : log.series)
    rows.push_back({printable(series.name), figure_text(series.points.front().value),
                    figure_text(series.points.back().value), step_text(series.lowest()), step_text(series.highest())});
  return table_text(rows);
}

/// Marks each column of the picture at the mean of the series' values there.
void draw(const Series& series, double first, double last, double low, double high, char mark,
          std::vector<std::string>& picture) {
  std::vector<double> sums(kColumns), counts(kColumns);
  for (const Series::Point& point : series.points) {
    const double part = last > first ? (point.step - first) / (last - first) : 0;
    const size_t column = std::min(kColumns - 1, static_cast<size_t>(std::max(0.0, part) * kColumns));
    sums[column] += point.value, counts[column] += 1;
  }
  for (size_t c = 0; c < kColumns; ++c) {
    if (counts[c] == 0) continue;
    const double part = high > low ? (sums[c] / counts[c] - low) / (high - low) : 0.5;
    const size_t line = static_cast<size_t>(std::lround((1 - part) * (kLines - 1)));
    picture[std::min(kLines - 1, line)][c] = mark;
  }
}

/// The loss over the steps, with "o" where it was evaluated.
std::string curve_text(const TrainingLog& log) {
  const Series *loss = log.find("loss"), *evaluated = log.find("eval_loss");
  if (loss == nullptr || loss->points.size() < 2) return "";
  double low = loss->lowest().value, high = loss->highest().value;
  if (evaluated != nullptr)
    low = std::min(low, evaluated->lowest().value), high = std::max(high, evaluated->highest().value);
  const double first = loss->points.front().step, last = loss->points.back().step;
  std::vector<std::string> picture(kLines, std::string(kColumns, ' '));
  draw(*loss, first, last, low, high, '*', picture);
  if (evaluated != nullptr) draw(*evaluated, first, last, low, high, 'o', picture);
  std::string text;
  for (size_t l = 0; l < kLines; ++l) {
    const std::string scale = l == 0 ? figure_text(high) : l + 1 == kLines ? figure_text(low) : "";
    text += "  " + std::string(10 - std::min<size_t>(10, scale.size()), ' ') + scale + " |" +
            picture[l].substr(0, picture[l].find_last_not_of(' ') + 1) + "\n";
  }
  const std::string begin = std::to_string(static_cast<int64_t>(first)),
                    end = std::to_string(static_cast<int64_t>(last));
  text += std::string(14, ' ') + begin + std::string(kColumns - std::min(kColumns, begin.size() + end.size()), ' ') +
          end + "\n";
  return text + (evaluated != nullptr ? "  loss by step: * of the batch, o of an evaluation\n" : "  loss by step\n");
}

std::string log_text(const TrainingLog& log) {
  const std::string odd = log.not_finite ? format(", {} figures that are not finite", log.not_finite) : "";
  return format("{}: {} steps{}\n", printable(log.name), log.steps, odd) + figures_text(log) + curve_text(log);
}

std::string point_json(const Series::Point& point) {
  return json_object({{"step", std::to_string(static_cast<int64_t>(point.step))}, {"value", shortest(point.value)}});
}

std::string log_json(const TrainingLog& log) {
  std::vector<std::string> figures;
  for (const Series& series : log.series)
    figures.push_back(json_object({{"name", json_string(series.name)},
                                   {"first", point_json(series.points.front())},
                                   {"last", point_json(series.points.back())},
                                   {"lowest", point_json(series.lowest())},
                                   {"highest", point_json(series.highest())}}));
  return json_object({{"log", json_string(log.name)},
                      {"steps", std::to_string(log.steps)},
                      {"not_finite", std::to_string(log.not_finite)},
                      {"figures", json_list(figures)}});
}

}  // namespace

int run_log(const Options& options) {
  Diags diags;
  std::vector<TrainingLog> logs;
  for (const std::string& file : options.logs) {
    std::optional<TrainingLog> log = read_training_log(file, diags);
    if (!log) return finish(diags);
    logs.push_back(std::move(*log));
  }
  std::vector<std::string> texts;
  for (const TrainingLog& log : logs) texts.push_back(options.json ? log_json(log) : log_text(log));
  std::printf("%s", options.json ? (json_lines(texts) + "\n").c_str() : join(texts, "\n").c_str());
  if (!options.page.empty()) write_page(options.page, training_log_page(logs), diags);
  return finish(diags);
}

}  // namespace weftc

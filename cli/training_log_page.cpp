// Fills templates/training_log.html. Charts are drawn in units of a view box, which the browser scales.
#include "cli/training_log_page.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/page.h"
#include "cli/table.h"
#include "ir/base/text.h"

namespace weftc {

namespace {

constexpr double kWidth = 1000, kHeight = 220, kLeft = 64, kTop = 12;
constexpr size_t kMostPoints = 500;
constexpr size_t kColors = 6;  // as the template has them
constexpr int kTicks = 5;

/// From the lowest to the highest of some numbers.
struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void add(double value) { low = std::min(low, value), high = std::max(high, value); }
  /// Where it is in a chart that is `length` long, from 0.
  double part(double value, double length) const {
    return high > low ? (value - low) / (high - low) * length : length / 2;
  }
};

/// Neighbours as one point: their average and their range.
struct Mean {
  double step = 0, value = 0;
  Range range;
};

std::vector<Mean> means_of(const std::vector<Series::Point>& points) {
  const size_t together = (points.size() + kMostPoints - 1) / kMostPoints;
  std::vector<Mean> means;
  for (size_t first = 0; first < points.size(); first += together) {
    const size_t end = std::min(first + together, points.size());
    Mean mean;
    for (size_t i = first; i < end; ++i) {
      mean.step += points[i].step, mean.value += points[i].value;
      mean.range.add(points[i].value);
    }
    const double count = static_cast<double>(end - first);
    mean.step /= count, mean.value /= count;
    means.push_back(mean);
  }
  return means;
}

/// 1, 2 or 5 times a power of ten, at least so large.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

/// A series of one of the runs.
struct Curve {
  const TrainingLog* log;
  const Series* series;
  size_t color;
};

class Chart {
 public:
  Chart(const std::string& figure, std::vector<Curve> curves) : figure_(figure), curves_(std::move(curves)) {
    for (const Curve& curve : curves_)
      for (const Mean& mean : means_of(curve.series->points))
        steps_.add(mean.step), values_.add(mean.range.low), values_.add(mean.range.high);
  }

  Params run() {
    params_.set("name", html_text(figure_));
    for (const char* list : {"grid", "columns", "bands", "lines", "dots"}) params_.list(list);
    add_grid();
    add_columns();
    for (const Curve& curve : curves_) add(curve);
    return std::move(params_);
  }

 private:
  double x(double step) const { return kLeft + steps_.part(step, kWidth - kLeft); }
  double y(double value) const { return kTop + kHeight - values_.part(value, kHeight); }
  std::string at(double step, double value) const { return fixed(x(step), "%.1f") + "," + fixed(y(value), "%.1f"); }

  void add_grid() {
    const double step = values_.high > values_.low ? round_step((values_.high - values_.low) / kTicks) : 0;
    const double first = step > 0 ? std::ceil(values_.low / step) * step : values_.low;
    for (int i = 0; first + i * step <= values_.high + step * 1e-9; ++i) {
      const double value = std::fabs(first + i * step) < step * 1e-9 ? 0 : first + i * step;
      Params tick;
      tick.set("y", fixed(y(value), "%.1f")).set("label", figure_text(value));
      params_.list("grid").push_back(std::move(tick));
      if (step == 0) break;
    }
  }

  void add_columns() {
    const double step = std::max(1.0, round_step(std::max(1.0, (steps_.high - steps_.low) / kTicks)));
    for (double at = std::ceil(steps_.low / step) * step; at <= steps_.high; at += step) {
      Params tick;
      tick.set("x", fixed(x(at), "%.1f")).set("label", fixed(at, "%.0f"));
      params_.list("columns").push_back(std::move(tick));
    }
  }

  void add(const Curve& curve) {
    std::vector<std::string> line, upper, lower;
    for (const Mean& mean : means_of(curve.series->points)) {
      line.push_back(at(mean.step, mean.value));
      upper.push_back(at(mean.step, mean.range.high)), lower.push_back(at(mean.step, mean.range.low));
      if (curve.series->is_evaluation() || curve.series->points.size() == 1) add_dot(curve, mean);
    }
    const std::string color = std::to_string(curve.color % kColors);
    if (curve.series->points.size() > kMostPoints) {
      upper.insert(upper.end(), lower.rbegin(), lower.rend());
      Params band;
      band.set("color", color).set("points", join(upper, " "));
      params_.list("bands").push_back(std::move(band));
    }
    Params drawn;
    drawn.set("color", color).set("points", join(line, " "));
    drawn.set("dashes", curve.series->is_evaluation() ? "5 4" : "none").set("tip", html_text(name_of(curve)));
    params_.list("lines").push_back(std::move(drawn));
  }

  void add_dot(const Curve& curve, const Mean& mean) {
    Params dot;
    dot.set("x", fixed(x(mean.step), "%.1f")).set("y", fixed(y(mean.value), "%.1f"));
    dot.set("color", std::to_string(curve.color % kColors));
    dot.set("tip",
            html_text(format("{} {} at step {}", name_of(curve), figure_text(mean.value), fixed(mean.step, "%.0f"))));
    params_.list("dots").push_back(std::move(dot));
  }

  static std::string name_of(const Curve& curve) { return curve.log->name + ": " + curve.series->name; }

  const std::string figure_;
  const std::vector<Curve> curves_;
  Range steps_, values_;
  Params params_;
};

/// Sizes and times of evaluations are not drawn.
bool is_drawn(const Series& series) { return series.name != "eval_samples" && series.name != "eval_ms"; }

/// The curves of each figure, in the order of the logs.
std::vector<std::pair<std::string, std::vector<Curve>>> curves_of(const std::vector<TrainingLog>& logs) {
  std::vector<std::pair<std::string, std::vector<Curve>>> found;
  for (size_t l = 0; l < logs.size(); ++l)
    for (const Series& series : logs[l].series) {
      if (!is_drawn(series)) continue;
      auto at =
          std::find_if(found.begin(), found.end(), [&](const auto& each) { return each.first == series.figure(); });
      if (at == found.end()) at = found.insert(found.end(), {series.figure(), {}});
      at->second.push_back({&logs[l], &series, l});
    }
  return found;
}

Params row_of(const TrainingLog& log, const Series& series) {
  Params row;
  row.set("run", html_text(log.name)).set("name", html_text(series.name));
  row.set("first", figure_text(series.points.front().value)).set("last", figure_text(series.points.back().value));
  row.set("lowest", figure_text(series.lowest().value)).set("lowest_at", fixed(series.lowest().step, "%.0f"));
  row.set("highest", figure_text(series.highest().value)).set("highest_at", fixed(series.highest().step, "%.0f"));
  return row;
}

}  // namespace

std::string figure_text(double value) { return fixed(value, "%.4g"); }

std::string training_log_page(const std::vector<TrainingLog>& logs) {
  Params params;
  std::vector<std::string> names;
  for (size_t l = 0; l < logs.size(); ++l) {
    names.push_back(logs[l].name);
    Params run;
    run.set("color", std::to_string(l % kColors)).set("name", html_text(logs[l].name));
    run.set("steps", std::to_string(logs[l].steps));
    params.list("runs").push_back(std::move(run));
    for (const Series& series : logs[l].series) params.list("rows").push_back(row_of(logs[l], series));
  }
  params.set("title", html_text(join(names, ", ")));
  for (auto& [figure, curves] : curves_of(logs))
    params.list("charts").push_back(Chart(figure, std::move(curves)).run());
  return render_page("training_log.html", std::move(params));
}

}  // namespace weftc

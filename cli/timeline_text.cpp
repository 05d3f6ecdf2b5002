// Timelines for a terminal: a bar for each stream, the longest steps, one sentence on overlap; and the figures
// as JSON.
#include "cli/timeline_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cli/json.h"
#include "cli/table.h"

namespace weftc {

namespace {

constexpr size_t kColumns = 100;
constexpr size_t kMostSteps = 10;
constexpr size_t kMostClasses = 12;

/// Three significant digits.
std::string number_text(double value) {
  char text[40];
  const bool is_int = value < 1000 && value == std::floor(value);
  std::snprintf(text, sizeof text, is_int || value >= 99.95 ? "%.0f" : value >= 9.995 ? "%.1f" : "%.2f", value);
  return text;
}

/// A bar of `columns` characters for a lane: '#' computes, '=' communicates, ':' less than half of the time,
/// '.' nothing.
std::string bar_text(const Timeline& timeline, int lane, size_t columns) {
  std::vector<double> computes(columns, 0), communicates(columns, 0);
  const double width = timeline.seconds / static_cast<double>(columns);
  for (const TimelineBox& box : timeline.boxes) {
    if (box.lane != lane) continue;
    auto& filled = timeline.steps[static_cast<size_t>(box.step)].communicates ? communicates : computes;
    for (auto c = static_cast<size_t>(box.begin / width); c < columns; ++c) {
      const double from = std::max(box.begin, width * static_cast<double>(c));
      const double to = std::min(box.end, width * static_cast<double>(c + 1));
      if (to <= from) break;
      filled[c] += to - from;
    }
  }
  std::string bar;
  for (size_t c = 0; c < columns; ++c) {
    const double busy = computes[c] + communicates[c];
    bar += busy <= 0 ? '.' : busy < width / 2 ? ':' : computes[c] >= communicates[c] ? '#' : '=';
  }
  return bar;
}

/// The label of each bar: ranks and stream.
std::vector<std::vector<std::string>> lane_labels(const Timeline& timeline, const std::vector<RankClass>& classes) {
  std::vector<std::vector<std::string>> labels;
  for (const RankClass& of : classes)
    for (size_t i = 0; i < of.lanes.size(); ++i)
      labels.push_back(
          {i == 0 ? ranks_text(of.ranks) : "", printable(timeline.lanes[static_cast<size_t>(of.lanes[i])].stream)});
  return labels;
}

/// A bar for each stream of one rank of each kind.
std::string lanes_text(const Timeline& timeline) {
  std::vector<RankClass> classes = rank_classes(timeline);
  const size_t left_out = classes.size() - std::min(classes.size(), kMostClasses);
  classes.resize(classes.size() - left_out);
  std::vector<std::vector<std::string>> rows = lane_labels(timeline, classes);
  size_t widths[2] = {0, 0};
  for (const auto& row : rows)
    for (size_t i = 0; i < 2; ++i) widths[i] = std::max(widths[i], row[i].size());
  const size_t used = widths[0] + widths[1] + 6;
  const size_t columns = used + 20 < kColumns ? kColumns - used : 20;
  size_t row = 0;
  for (const RankClass& of : classes)
    for (const int lane : of.lanes) rows[row++].push_back(bar_text(timeline, lane, columns));
  std::string text = table_text(rows);
  if (left_out > 0) text += format("  and {} more kinds of ranks\n", left_out);
  return text;
}

/// The table of the longest steps.
std::string longest_text(const Timeline& timeline) {
  const std::vector<StepTotal> totals = step_totals(timeline);
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(totals.size(), kMostSteps); ++i) {
    const TimelineStep& step = timeline.steps[static_cast<size_t>(totals[i].step)];
    rows.push_back({printable(step.name), format("x{}", totals[i].runs), time_text(totals[i].seconds),
                    number_text(100 * totals[i].seconds / timeline.seconds) + " %",
                    step.communicates ? "communication" : "computation",
                    step.is_counted ? work_text(step.cost.work) : "",
                    step.is_counted ? bound_name(step.cost.bound) : ""});
    for (std::string& cell : rows.back()) cell = shortened(cell, 36);
  }
  const size_t all = totals.size();
  return format("  longest steps{} (runs and time on one rank, share of the whole{}):\n",
                all > kMostSteps ? format(", {} of {}", kMostSteps, all) : "",
                all > 0 && timeline.steps[0].is_counted ? ", work of one run and what bounds it" : "") +
         table_text(rows);
}

}  // namespace

bool has_time(const Timeline& timeline) { return !timeline.boxes.empty() && timeline.seconds > 1e-12; }

std::string shortened(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

std::string time_text(double seconds) {
  const std::pair<double, const char*> units[] = {{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}};
  for (const auto& [unit, name] : units)
    if (seconds < 999.5 * unit || unit == 1) return number_text(seconds / unit) + " " + name;
  return "";
}

std::string metric_text(double number) {
  const std::pair<double, const char*> prefixes[] = {{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}};
  for (const auto& [unit, name] : prefixes)
    if (number < 999.5 * unit || unit == 1e12) return number_text(number / unit) + " " + name;
  return "";
}

std::string work_text(const Work& work) {
  std::vector<std::string> parts;
  if (const double operations = work.f32 + work.f64 + work.f16; operations > 0)
    parts.push_back(metric_text(operations) + "OP");
  if (work.bytes > 0) parts.push_back(bytes_text(work.bytes));
  if (work.link_bytes > 0) parts.push_back(bytes_text(work.link_bytes) + " by link");
  return join(parts, ", ");
}

std::vector<StepTotal> step_totals(const Timeline& timeline) {
  std::map<std::pair<int, int>, StepTotal> of_rank;  // by step and rank
  for (const TimelineBox& box : timeline.boxes) {
    StepTotal& total = of_rank[{box.step, timeline.lanes[static_cast<size_t>(box.lane)].rank}];
    total.step = box.step;
    total.runs += 1;
    total.seconds += box.end - box.begin;
  }
  std::map<int, StepTotal> longest;
  for (const auto& [key, total] : of_rank)
    if (total.seconds > longest[key.first].seconds) longest[key.first] = total;
  std::vector<StepTotal> totals;
  for (const auto& [step, total] : longest) totals.push_back(total);
  // Equal steps add up to times that differ in their last bits: they keep their order.
  std::stable_sort(totals.begin(), totals.end(), [](const StepTotal& a, const StepTotal& b) {
    return std::llround(a.seconds * 1e12) > std::llround(b.seconds * 1e12);
  });
  return totals;
}

std::vector<RankClass> rank_classes(const Timeline& timeline) {
  std::map<int, std::vector<std::pair<std::string, std::vector<int>>>> runs;  // of a rank: streams with their steps
  std::map<int, std::vector<int>> lanes;
  std::vector<std::vector<int>> steps(timeline.lanes.size());
  for (const TimelineBox& box : timeline.boxes) steps[static_cast<size_t>(box.lane)].push_back(box.step);
  for (size_t lane = 0; lane < steps.size(); ++lane) {
    if (steps[lane].empty()) continue;
    runs[timeline.lanes[lane].rank].push_back({timeline.lanes[lane].stream, steps[lane]});
    lanes[timeline.lanes[lane].rank].push_back(static_cast<int>(lane));
  }
  std::vector<RankClass> classes;
  std::map<std::vector<std::pair<std::string, std::vector<int>>>, size_t> known;
  for (const auto& [rank, what] : runs) {
    const auto [at, is_new] = known.insert({what, classes.size()});
    if (is_new) classes.push_back({{}, lanes[rank]});
    classes[at->second].ranks.push_back(rank);
  }
  return classes;
}

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return format("rank {}", ranks[0]);
  if (ranks.back() - ranks.front() + 1 == static_cast<int>(ranks.size()))
    return format("ranks {} to {}", ranks.front(), ranks.back());
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(std::to_string(rank));
  if (names.size() > 6) names = {names[0], names[1], names[2], format("{} more", names.size() - 3)};
  return "ranks " + join(names, ", ");
}

std::string summary_text(const Timeline& timeline) {
  const BusyTimes times = mean_times(busy_times(timeline));
  std::string text = time_text(timeline.seconds) + ": computation " + time_text(times.computation);
  if (times.communication <= 0) return text + ", no communication";
  text += ", communication " + time_text(times.communication) + ", either " + time_text(times.both);
  return text + "; hidden: " + number_text(100 * times.hidden()) + " % of the shorter";
}

std::string timeline_text(const Timeline& timeline) {
  std::string text = "timeline, " + printable(timeline.source) + "\n";
  for (const std::string& note : timeline.notes) text += "  " + printable(note) + "\n";
  if (!has_time(timeline)) return text + "  nothing runs\n";
  text += "  " + summary_text(timeline) + "\n" + lanes_text(timeline);
  return text + "  (# computes, = communicates, : less than half of the time)\n" + longest_text(timeline);
}

std::string timeline_json(const Timeline& timeline, const std::vector<std::pair<std::string, std::string>>& more) {
  const BusyTimes times = mean_times(busy_times(timeline));
  std::vector<std::string> steps;
  for (const StepTotal& total : step_totals(timeline)) {
    const TimelineStep& step = timeline.steps[static_cast<size_t>(total.step)];
    steps.push_back(json_object({{"name", json_string(step.name)},
                                 {"communicates", step.communicates ? "true" : "false"},
                                 {"runs", std::to_string(total.runs)},
                                 {"seconds", shortest(total.seconds)}}));
  }
  std::vector<std::pair<std::string, std::string>> fields = {{"seconds", shortest(timeline.seconds)},
                                                             {"computation", shortest(times.computation)},
                                                             {"communication", shortest(times.communication)},
                                                             {"either", shortest(times.both)},
                                                             {"hidden", shortest(times.hidden())},
                                                             {"steps", json_list(steps)}};
  fields.insert(fields.end(), more.begin(), more.end());
  return json_object(fields);
}

}  // namespace weftc

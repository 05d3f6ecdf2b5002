// Finds the shortest time for which a cut exists, by bisection: each stage takes as many items as fit. Then minimizes
// the bytes over the cuts within slightly more than that time, stage by stage:
//
//   least[s][i] = after[i] + the smallest least[s - 1][j], of those j for which the items j + 1 .. i are short enough
#include "passes/prepare/cut_line.h"

#include <algorithm>

#include "ir/base/check.h"

namespace weftc {

namespace {

constexpr double kSlack = 1.05;
constexpr int64_t kNever = INT64_MAX / 4;

/// The number of stages if each takes as much as the time allows; too many where an item alone takes longer.
int stages_within(const std::vector<LineItem>& line, double most) {
  int stages = 1;
  double time = 0;
  for (const LineItem& item : line) {
    if (item.time > most) return INT32_MAX;
    if (time + item.time > most) ++stages, time = 0;
    time += item.time;
  }
  return stages;
}

double least_time(const std::vector<LineItem>& line, int stages) {
  double low = 0, high = 0;
  for (const LineItem& item : line) high += item.time;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = (low + high) / 2;
    (stages_within(line, middle) <= stages ? high : low) = middle;
  }
  return high;
}

}  // namespace

std::vector<int> cut_line(const std::vector<LineItem>& line, int stages) {
  const int n = static_cast<int>(line.size());
  WEFT_CHECK(stages >= 1 && stages <= n, "more stages than there is to cut");
  const double most = least_time(line, stages) * kSlack;
  std::vector<double> until(line.size() + 1, 0);
  for (size_t i = 0; i < line.size(); ++i) until[i + 1] = until[i] + line[i].time;
  // In round s, items 0 .. i - 1 are in stages 0 .. s - 1.
  std::vector<int64_t> least(line.size() + 1, kNever);
  std::vector<std::vector<int>> from(static_cast<size_t>(stages), std::vector<int>(line.size() + 1, 0));
  least[0] = 0;
  for (int s = 0; s < stages; ++s) {
    std::vector<int64_t> next(line.size() + 1, kNever);
    for (int i = s + 1; i <= n - (stages - 1 - s); ++i)
      for (int j = i - 1; j >= s && until[static_cast<size_t>(i)] - until[static_cast<size_t>(j)] <= most; --j) {
        const int64_t sent = i < n ? line[static_cast<size_t>(i) - 1].after : 0;
        const int64_t bytes = least[static_cast<size_t>(j)] == kNever ? kNever : least[static_cast<size_t>(j)] + sent;
        if (bytes < next[static_cast<size_t>(i)])
          next[static_cast<size_t>(i)] = bytes, from[static_cast<size_t>(s)][static_cast<size_t>(i)] = j;
      }
    least = std::move(next);
  }
  WEFT_CHECK(least[line.size()] != kNever, "a line of ops cannot be cut");
  std::vector<int> stage_of(line.size());
  for (int s = stages - 1, end = n; s >= 0; --s) {
    const int begin = from[static_cast<size_t>(s)][static_cast<size_t>(end)];
    std::fill(stage_of.begin() + begin, stage_of.begin() + end, s);
    end = begin;
  }
  return stage_of;
}

std::vector<int> join_short_items(const std::vector<LineItem>& line, int parts) {
  double total = 0;
  for (const LineItem& item : line) total += item.time;
  const double most = total / parts;
  std::vector<int> stretch_of;
  for (size_t begin = 0, stretch = 0; begin < line.size(); ++stretch) {
    size_t end = begin + 1;  // past the end of the stretch
    double time = line[begin].time;
    for (size_t i = end; i < line.size() && time + line[i].time <= most; ++i) {
      time += line[i].time;
      const bool is_long = time > most / 2;
      if (!is_long || i + 1 == line.size() || line[i].after <= line[end - 1].after) end = i + 1;
    }
    stretch_of.resize(end, static_cast<int>(stretch));
    begin = end;
  }
  return stretch_of;
}

}  // namespace weftc

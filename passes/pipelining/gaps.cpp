// Sums of subsets of the times of a device's blocks, as intervals: each is as wide as the device may be idle.
#include "passes/pipelining/gaps.h"

#include <algorithm>

namespace weftc {

namespace {

// Sums of more blocks, and more intervals, cost more than they exclude; beyond this, every gap with room for both is
// allowed.
constexpr size_t kMostBlocksBeside = 24, kMostGaps = 1024;

/// Sorts, and joins gaps that touch.
void merge(std::vector<Gap>& gaps) {
  std::sort(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) { return a.least < b.least; });
  size_t kept = 0;
  for (const Gap& gap : gaps) {
    if (kept > 0 && gap.least <= gaps[kept - 1].most + 1)
      gaps[kept - 1].most = std::max(gaps[kept - 1].most, gap.most);
    else
      gaps[kept++] = gap;
  }
  gaps.resize(kept);
}

/// The gaps that the other blocks of a device allow: `times` are theirs.
std::vector<Gap> gaps_of_device(int64_t least, int64_t most, const std::vector<int64_t>& times, int64_t idle) {
  if (times.size() > kMostBlocksBeside) return {{least, most}};
  std::vector<Gap> gaps = {{least, least + idle}};
  for (const int64_t time : times) {
    const size_t count = gaps.size();
    if (count > kMostGaps) return {{least, most}};
    for (size_t i = 0; i < count; ++i) gaps.push_back({gaps[i].least + time, gaps[i].most + time});
    merge(gaps);
  }
  std::erase_if(gaps, [&](const Gap& gap) { return gap.least > most; });
  for (Gap& gap : gaps) gap.most = std::min(gap.most, most);
  return gaps;
}

std::vector<Gap> common(const std::vector<Gap>& a, const std::vector<Gap>& b) {
  std::vector<Gap> both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Gap gap = {std::max(a[i].least, b[j].least), std::min(a[i].most, b[j].most)};
    if (gap.least <= gap.most) both.push_back(gap);
    if (a[i].most < b[j].most)
      ++i;
    else
      ++j;
  }
  return both;
}

}  // namespace

std::vector<Gap> gaps_between(const PipelineProblem& problem, int first, int second, int64_t period) {
  const PipelineBlock &a = problem.blocks[static_cast<size_t>(first)], &b = problem.blocks[static_cast<size_t>(second)];
  std::vector<Gap> gaps;
  if (a.time <= period - b.time) gaps.push_back({a.time, period - b.time});
  for (const int device : a.devices) {
    if (std::count(b.devices.begin(), b.devices.end(), device) == 0) continue;
    std::vector<int64_t> times;
    int64_t idle = period - a.time - b.time;
    for (size_t i = 0; i < problem.blocks.size(); ++i) {
      const PipelineBlock& block = problem.blocks[i];
      if (static_cast<int>(i) == first || static_cast<int>(i) == second ||
          std::count(block.devices.begin(), block.devices.end(), device) == 0)
        continue;
      times.push_back(block.time);
      idle -= block.time;
    }
    if (idle < 0) return {};
    gaps = common(gaps, gaps_of_device(a.time, period - b.time, times, idle));
  }
  return gaps;
}

int64_t round_to_gap(const std::vector<Gap>& gaps, int64_t difference, int64_t period, bool upwards) {
  const int64_t whole = floor_divide(difference, period), rest = difference - whole * period;
  if (upwards) {
    for (const Gap& gap : gaps)
      if (gap.most >= rest) return whole * period + std::max(rest, gap.least);
    return (whole + 1) * period + gaps.front().least;
  }
  for (size_t i = gaps.size(); i > 0; --i)
    if (gaps[i - 1].least <= rest) return whole * period + std::min(rest, gaps[i - 1].most);
  return (whole - 1) * period + gaps.back().most;
}

}  // namespace weftc

// Searches from the front fill best, searches from the back drain best: both are made, each with both preferences.
#include "passes/pipelining/makespan.h"

#include <algorithm>
#include <tuple>

namespace weftc {

namespace {

// Work of one search, in steps of some nanoseconds, unless one partial schedule a level takes more; the work after
// which no search is made; and the most partial schedules of a level.
constexpr size_t kFillWork = 30'000'000, kMostFillWork = 1'000'000'000, kMostWidth = 400;

/// A step is a block of one partial schedule's bound: the ready blocks, of which there are about as many as devices.
size_t width_for(const PipelineProblem& problem, int micro_batches) {
  const size_t blocks = problem.blocks.size(), levels = blocks * static_cast<size_t>(micro_batches);
  const size_t work = levels * (levels / 8 + 4 * blocks * std::min(blocks, problem.limits.size()));
  return work > kMostFillWork ? 0 : std::clamp<size_t>(kFillWork / work, 1, kMostWidth);
}

/// Time runs backwards: a block that gives memory back takes it, and the last block is the first.
PipelineProblem reversed(const PipelineProblem& problem) {
  PipelineProblem back = problem;
  for (PipelineBlock& block : back.blocks) block.after.clear(), block.memory = -block.memory;
  for (size_t i = 0; i < problem.blocks.size(); ++i)
    for (const int earlier : problem.blocks[i].after)
      back.blocks[static_cast<size_t>(earlier)].after.push_back(static_cast<int>(i));
  return back;
}

PipelineStarts reversed(const PipelineProblem& problem, const PipelineStarts& starts) {
  const int64_t length = length_of(problem, starts);
  PipelineStarts back(starts.rbegin(), starts.rend());
  for (std::vector<int64_t>& micro_batch : back)
    for (size_t i = 0; i < micro_batch.size(); ++i) micro_batch[i] = length - micro_batch[i] - problem.blocks[i].time;
  return back;
}

/// Each block as soon as its devices and predecessors allow, in the order of the starts that are given.
PipelineStarts as_soon_as_possible(const PipelineProblem& problem, const PipelineStarts& starts) {
  std::vector<std::tuple<int64_t, size_t, size_t>> order;
  for (size_t m = 0; m < starts.size(); ++m)
    for (const int i : topological_order(problem)) {
      const auto block = static_cast<size_t>(i);
      order.push_back({starts[m][block], m, block});
    }
  std::sort(order.begin(), order.end());
  PipelineStarts soon = starts;
  std::vector<int64_t> free(problem.limits.size(), 0);
  for (const auto& [at, m, i] : order) {
    int64_t start = 0;
    const PipelineBlock& block = problem.blocks[i];
    for (const int device : block.devices) start = std::max(start, free[static_cast<size_t>(device)]);
    for (const int earlier : block.after) {
      const auto before = static_cast<size_t>(earlier);
      start = std::max(start, soon[m][before] + problem.blocks[before].time);
    }
    for (const int device : block.devices) free[static_cast<size_t>(device)] = start + block.time;
    soon[m][i] = start;
  }
  return soon;
}

}  // namespace

PipelineStarts compacted(const PipelineProblem& problem, const PeriodicSchedule& schedule, int micro_batches) {
  PipelineStarts starts;
  for (int m = 0; m < micro_batches; ++m) {
    starts.push_back(schedule.starts[static_cast<size_t>(m % schedule.copies)]);
    for (int64_t& start : starts.back()) start += m / schedule.copies * schedule.period;
  }
  return as_soon_as_possible(problem, starts);
}

int64_t length_of(const PipelineProblem& problem, const PipelineStarts& starts) {
  int64_t length = 0;
  for (const std::vector<int64_t>& micro_batch : starts)
    for (size_t i = 0; i < micro_batch.size(); ++i) length = std::max(length, micro_batch[i] + problem.blocks[i].time);
  return length;
}

int64_t least_length(const PipelineProblem& problem, int micro_batches) {
  return std::max(least_makespan(problem, micro_batches), least_makespan(reversed(problem), micro_batches));
}

Makespan find_makespan(const PipelineProblem& problem, const PeriodicSchedule& schedule, int micro_batches) {
  const PipelineProblem back = reversed(problem);
  Makespan best;
  best.starts = compacted(problem, schedule, micro_batches);
  best.length = length_of(problem, best.starts);
  best.least = least_length(problem, micro_batches);
  const size_t width = width_for(problem, micro_batches);
  for (const bool is_back : {true, false})
    for (const FillPreference preference : {FillPreference::EarlyDevices, FillPreference::FewIdle}) {
      if (best.length == best.least || width == 0) return best;
      const PipelineProblem& searched = is_back ? back : problem;
      FillResult found = search_fill(searched, micro_batches, best.length, preference, width);
      if (!found.starts.empty()) {
        best.starts = is_back ? reversed(searched, found.starts) : std::move(found.starts);
        best.length = length_of(problem, best.starts);
      }
      if (found.is_complete) best.least = best.length;
    }
  return best;
}

}  // namespace weftc

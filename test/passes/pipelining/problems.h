// Pipelines for tests, and a check of schedules that shares nothing with their search.
#pragma once
#include <algorithm>
#include <map>
#include <string>

#include "passes/pipelining/makespan.h"

namespace weftc {

/// Blocks in a row, each after the one before.
struct RowBlock {
  std::vector<int> devices;
  int64_t time, memory;
};
inline PipelineProblem row_of_blocks(int devices, int64_t limit, const std::vector<RowBlock>& row) {
  PipelineProblem problem;
  problem.limits.assign(static_cast<size_t>(devices), limit);
  for (const RowBlock& block : row) {
    problem.blocks.push_back({block.devices, block.time, block.memory, {}});
    if (problem.blocks.size() > 1) problem.blocks.back().after = {static_cast<int>(problem.blocks.size()) - 2};
  }
  return problem;
}

/// Forward blocks of 1 on devices 0, 1, ..., backward ones of 3 on the way back.
inline PipelineProblem v_shape(int devices, int64_t limit, int64_t unit = 1) {
  std::vector<RowBlock> row;
  for (int i = 0; i < devices; ++i) row.push_back({{i}, unit, 1});
  for (int i = devices - 1; i >= 0; --i) row.push_back({{i}, 3 * unit, -1});
  return row_of_blocks(devices, limit, row);
}

/// The order of a device's blocks as they start: the memory that is held after each, as sums.
inline int64_t peak_of(const PipelineProblem& problem, const PipelineStarts& starts, int device) {
  std::map<int64_t, int64_t> taken;
  for (const std::vector<int64_t>& micro_batch : starts)
    for (size_t i = 0; i < micro_batch.size(); ++i)
      if (std::count(problem.blocks[i].devices.begin(), problem.blocks[i].devices.end(), device) > 0)
        taken[micro_batch[i]] += problem.blocks[i].memory;
  int64_t held = 0, peak = 0;
  for (const auto& [at, memory] : taken) peak = std::max(peak, held += memory);
  return peak;
}

/// The error in a schedule of several micro-batches; "" if it is right.
inline std::string fault_of(const PipelineProblem& problem, const PipelineStarts& starts,
                            const std::vector<int64_t>& limits) {
  for (size_t m = 0; m < starts.size(); ++m)
    for (size_t i = 0; i < problem.blocks.size(); ++i) {
      if (starts[m][i] < 0) return "a block starts before 0";
      for (const int earlier : problem.blocks[i].after) {
        const auto before = static_cast<size_t>(earlier);
        if (starts[m][before] + problem.blocks[before].time > starts[m][i]) return "a block starts too early";
      }
    }
  for (size_t device = 0; device < limits.size(); ++device) {
    std::vector<std::pair<int64_t, int64_t>> busy;
    for (const std::vector<int64_t>& micro_batch : starts)
      for (size_t i = 0; i < micro_batch.size(); ++i) {
        const std::vector<int>& devices = problem.blocks[i].devices;
        if (std::count(devices.begin(), devices.end(), static_cast<int>(device)) > 0)
          busy.push_back({micro_batch[i], micro_batch[i] + problem.blocks[i].time});
      }
    std::sort(busy.begin(), busy.end());
    for (size_t i = 1; i < busy.size(); ++i)
      if (busy[i - 1].second > busy[i].first) return "two blocks overlap";
    if (peak_of(problem, starts, static_cast<int>(device)) > limits[device]) return "a limit is exceeded";
  }
  return "";
}

/// The first so many micro-batches of a periodic schedule.
inline PipelineStarts first_of(const PeriodicSchedule& schedule, int micro_batches) {
  PipelineStarts starts;
  for (int m = 0; m < micro_batches; ++m) {
    starts.push_back(schedule.starts[static_cast<size_t>(m % schedule.copies)]);
    for (int64_t& start : starts.back()) start += m / schedule.copies * schedule.period;
  }
  return starts;
}

}  // namespace weftc

// Bisects the range between a bound and the best known value, first of periods and then of memory. A schedule of one
// period is one of every longer period as well, with the same remainders and whole periods, so the answers are
// monotonic.
#include "passes/pipelining/periodic_schedule.h"

#include <algorithm>
#include <numeric>

#include "passes/pipelining/gaps.h"
#include "passes/pipelining/least_memory.h"

namespace weftc {

namespace {

/// One decision gets this part of the remaining steps (1 / kShare), so that many decisions can fail to end.
constexpr uint64_t kShare = 3;

/// Copies of a block start in the order of their micro-batches: exchanging copies gives nothing new.
std::vector<RepeatedOrder> order_of_copies(size_t blocks, int copies) {
  std::vector<RepeatedOrder> orders;
  for (int copy = 0; copies > 1 && copy < copies; ++copy)
    for (size_t i = 0; i < blocks; ++i) {
      const bool is_last = copy + 1 == copies;
      const int at = copy * static_cast<int>(blocks) + static_cast<int>(i);
      orders.push_back({at, is_last ? static_cast<int>(i) : at + static_cast<int>(blocks), is_last ? 1 : 0});
    }
  return orders;
}

/// One micro-batch at a time, as soon as the one before has ended.
struct Sequence {
  std::vector<int64_t> starts;
  int64_t length = 0;
};
Sequence one_at_a_time(const PipelineProblem& problem) {
  Sequence sequence;
  sequence.starts.assign(problem.blocks.size(), 0);
  std::vector<int64_t> free(problem.limits.size(), 0);
  const std::vector<int> order = order_within(problem).order;
  for (const int i : order) {
    const PipelineBlock& block = problem.blocks[static_cast<size_t>(i)];
    int64_t start = 0;
    for (const int device : block.devices) start = std::max(start, free[static_cast<size_t>(device)]);
    for (const int earlier : block.after)
      start = std::max(
          start, sequence.starts[static_cast<size_t>(earlier)] + problem.blocks[static_cast<size_t>(earlier)].time);
    sequence.starts[static_cast<size_t>(i)] = start;
    for (const int device : block.devices) free[static_cast<size_t>(device)] = start + block.time;
    sequence.length = std::max(sequence.length, start + block.time);
  }
  return sequence;
}

class ScheduleSearch {
 public:
  ScheduleSearch(const PipelineProblem& problem, int copies, uint64_t steps)
      : single_(problem), problem_(unrolled(problem, copies)), copies_(copies), budget_{steps} {
    repeated_ = order_of_copies(problem.blocks.size(), copies);
  }

  /// From a schedule on that has fewer copies; without one, from one micro-batch at a time.
  PeriodicSchedule run(const PeriodicSchedule* single);

 private:
  void begin(const PeriodicSchedule* single);
  PeriodAnswer decide(const PipelineProblem& problem, int64_t period);
  void find_period();
  void find_memory();
  int64_t memory() const {
    const std::vector<int64_t> peaks = periodic_peaks(problem_, starts_, period_);
    return *std::max_element(peaks.begin(), peaks.end());
  }

  const PipelineProblem& single_;
  PipelineProblem problem_;
  const int copies_;
  PipelineBudget budget_;
  std::vector<RepeatedOrder> repeated_;
  int64_t period_ = 0, least_period_ = 0, least_memory_ = 0;
  std::vector<int64_t> starts_;
};

/// Takes over a schedule that was found.
PeriodAnswer ScheduleSearch::decide(const PipelineProblem& problem, int64_t period) {
  PipelineBudget share = {budget_.steps / kShare};
  const uint64_t before = share.steps;
  PeriodResult result = search_period(problem, repeated_, period, share);
  budget_.steps -= before - share.steps;
  if (result.answer == PeriodAnswer::Found) starts_ = std::move(result.starts), period_ = period;
  return result.answer;
}

void ScheduleSearch::begin(const PeriodicSchedule* single) {
  Sequence sequence;
  if (single)
    sequence = {single->starts.front(), single->period};
  else
    sequence = one_at_a_time(single_);
  for (int copy = 0; copy < copies_; ++copy)
    for (const int64_t start : sequence.starts) starts_.push_back(start + copy * sequence.length);
  period_ = copies_ * sequence.length;
  const std::vector<int64_t> loads = device_loads(problem_);
  least_period_ = *std::max_element(loads.begin(), loads.end());
}

/// Steps away from the bound, twice as far each time, then bisects the last step.
void ScheduleSearch::find_period() {
  int64_t next = least_period_, wanted = next;  // nothing from `wanted` on has been tried in vain
  for (int64_t stride = 1; wanted < period_; stride *= 2) {
    const int64_t tried = std::min(next, wanted + (period_ - wanted) / 2);
    const PeriodAnswer answer = decide(problem_, tried);
    if (answer == PeriodAnswer::Impossible) least_period_ = std::max(least_period_, tried + 1);
    if (answer != PeriodAnswer::Found) wanted = tried + 1;
    next = wanted + stride - 1;
  }
}

void ScheduleSearch::find_memory() {
  PipelineProblem tighter = problem_;
  int64_t wanted = 0;
  while (wanted < memory()) {
    const int64_t tried = wanted + (memory() - wanted - 1) / 2;
    for (size_t i = 0; i < tighter.limits.size(); ++i) tighter.limits[i] = std::min(problem_.limits[i], tried);
    const PeriodAnswer answer = decide(tighter, period_);
    if (answer == PeriodAnswer::Found) continue;
    wanted = tried + 1;
    if (answer == PeriodAnswer::Impossible) least_memory_ = wanted;
  }
}

PeriodicSchedule ScheduleSearch::run(const PeriodicSchedule* single) {
  begin(single);
  find_period();
  find_memory();
  PeriodicSchedule schedule;
  schedule.copies = copies_;
  schedule.period = period_;
  schedule.least_period = least_period_;
  schedule.least_memory = least_memory_;
  schedule.peaks = periodic_peaks(problem_, starts_, period_);
  const auto blocks = static_cast<std::ptrdiff_t>(single_.blocks.size());
  for (auto copy = starts_.begin(); copy != starts_.end(); copy += blocks)
    schedule.starts.emplace_back(copy, copy + blocks);
  return schedule;
}

}  // namespace

int64_t PeriodicSchedule::memory() const { return *std::max_element(peaks.begin(), peaks.end()); }

PipelineProblem unrolled(const PipelineProblem& problem, int copies) {
  PipelineProblem all;
  all.limits = problem.limits;
  for (int copy = 0; copy < copies; ++copy)
    for (const PipelineBlock& block : problem.blocks) {
      all.blocks.push_back(block);
      for (int& earlier : all.blocks.back().after) earlier += copy * static_cast<int>(problem.blocks.size());
    }
  return all;
}

std::vector<int64_t> periodic_peaks(const PipelineProblem& problem, const std::vector<int64_t>& starts,
                                    int64_t period) {
  std::vector<int64_t> peaks;
  for (const std::vector<int>& blocks : blocks_by_device(problem)) {
    peaks.push_back(0);
    for (const int at : blocks) {
      int64_t level = 0;
      for (const int i : blocks) {
        const int64_t since = starts[static_cast<size_t>(at)] - starts[static_cast<size_t>(i)];
        level += problem.blocks[static_cast<size_t>(i)].memory * (floor_divide(since, period) + 1);
      }
      peaks.back() = std::max(peaks.back(), level);
    }
  }
  return peaks;
}

PeriodicSchedule find_periodic_schedule(const PipelineProblem& problem, int copies, uint64_t steps) {
  int64_t unit = 0;
  for (const PipelineBlock& block : problem.blocks) unit = std::gcd(unit, block.time);
  PipelineProblem coarse = problem;
  for (PipelineBlock& block : coarse.blocks) block.time /= unit;
  PeriodicSchedule schedule = ScheduleSearch(coarse, 1, steps).run(nullptr);
  if (copies > 1) schedule = ScheduleSearch(coarse, copies, steps).run(&schedule);
  schedule.period *= unit;
  schedule.least_period *= unit;
  for (std::vector<int64_t>& starts : schedule.starts)
    for (int64_t& start : starts) start *= unit;
  return schedule;
}

uint64_t usual_steps(const PipelineProblem& problem, int copies) {
  constexpr uint64_t kSteps = kStepsASecond * 3 / 2, kBlocks = 64;  // 1.5 s for 64 blocks
  const uint64_t blocks = problem.blocks.size() * static_cast<uint64_t>(copies);
  return kSteps * std::max<uint64_t>(1, blocks / kBlocks);
}

}  // namespace weftc

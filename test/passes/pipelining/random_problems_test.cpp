// Random small problems beside a search that tries every start, step of time by step of time.
#include <doctest/doctest.h>

#include <random>

#include "passes/pipelining/faults.h"
#include "test/passes/pipelining/problems.h"

using namespace weftc;

namespace {

/// Tries all starts of one period; block after block, copy after copy.
class EveryStart {
 public:
  EveryStart(const PipelineProblem& problem, const std::vector<int64_t>& limits, int copies, int64_t period)
      : problem_(problem),
        limits_(limits),
        order_(topological_order(problem)),
        period_(period),
        starts_(static_cast<size_t>(copies), std::vector<int64_t>(problem.blocks.size(), 0)) {}

  bool run() { return place(0); }

 private:
  /// The first and the last start that a block can have beside those before it.
  std::pair<int64_t, int64_t> range(size_t copy, size_t i) const {
    const PipelineBlock& block = problem_.blocks[i];
    int64_t first = block.after.empty() ? -2 * period_ : INT64_MIN;
    for (const int earlier : block.after) {
      const auto before = static_cast<size_t>(earlier);
      first = std::max(first, starts_[copy][before] + problem_.blocks[before].time);
    }
    int64_t last = first + (block.after.empty() ? 5 : 3) * period_ - 1;
    if (copy > 0) {
      first = std::max(first, starts_[copy - 1][i] + block.time);
      last = starts_[0][i] + period_ - block.time;
    }
    return {first, last};
  }
  bool overlaps(size_t count, size_t i, int64_t at) const {
    const size_t blocks = problem_.blocks.size();
    for (size_t other = 0; other < count; ++other) {
      const auto j = static_cast<size_t>(order_[other % blocks]);
      const auto shares = [&](int device) {
        const std::vector<int>& devices = problem_.blocks[j].devices;
        return std::count(devices.begin(), devices.end(), device) > 0;
      };
      if (std::none_of(problem_.blocks[i].devices.begin(), problem_.blocks[i].devices.end(), shares)) continue;
      const int64_t gap = (((at - starts_[other / blocks][j]) % period_) + period_) % period_;
      if (gap < problem_.blocks[j].time || gap + problem_.blocks[i].time > period_) return true;
    }
    return false;
  }
  bool keeps_limits() const {
    PipelineStarts all;
    for (int period = 0; period < 14; ++period)
      for (const std::vector<int64_t>& copy : starts_) {
        all.push_back(copy);
        for (int64_t& start : all.back()) start += period * period_;
      }
    for (size_t device = 0; device < limits_.size(); ++device)
      if (peak_of(problem_, all, static_cast<int>(device)) > limits_[device]) return false;
    return true;
  }
  bool place(size_t count) {
    const size_t blocks = problem_.blocks.size();
    if (count == blocks * starts_.size()) return keeps_limits();
    const size_t copy = count / blocks;
    const auto i = static_cast<size_t>(order_[count % blocks]);
    if (problem_.blocks[i].time > period_) return false;
    const auto [first, last] = count == 0 ? std::pair<int64_t, int64_t>{0, 0} : range(copy, i);
    for (int64_t at = first; at <= last; ++at) {
      starts_[copy][i] = at;
      if (!overlaps(count, i, at) && place(count + 1)) return true;
    }
    return false;
  }

  const PipelineProblem& problem_;
  const std::vector<int64_t> limits_;
  const std::vector<int> order_;
  const int64_t period_;
  PipelineStarts starts_;
};

/// Pairs of blocks that take and give back, and blocks without memory, on one device or two.
PipelineProblem random_problem(std::mt19937& random, int pairs, int others) {
  const auto below = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  PipelineProblem problem;
  problem.limits.assign(3, 0);
  const auto add = [&](std::vector<int> devices, int64_t memory) {
    PipelineBlock block = {std::move(devices), 1 + below(3), memory, {}};
    for (size_t earlier = 0; earlier < problem.blocks.size(); ++earlier)
      if (below(2) == 0) block.after.push_back(static_cast<int>(earlier));
    problem.blocks.push_back(std::move(block));
  };
  const auto some_devices = [&] {
    const int device = below(3);
    return below(4) == 0 ? std::vector<int>{device, (device + 1) % 3} : std::vector<int>{device};
  };
  for (int i = 0; i < pairs; ++i) add(some_devices(), 1 + below(2));
  for (int i = 0; i < others; ++i) add(some_devices(), 0);
  for (int i = 0; i < pairs; ++i) {
    add(problem.blocks[static_cast<size_t>(i)].devices, -problem.blocks[static_cast<size_t>(i)].memory);
    std::vector<int>& after = problem.blocks.back().after;
    if (std::count(after.begin(), after.end(), i) == 0) after.push_back(i);
  }
  for (int64_t& limit : problem.limits) limit = 2 + below(4);
  return problem;
}

void compare(const PipelineProblem& problem, int copies) {
  const PeriodicSchedule schedule = find_periodic_schedule(problem, copies, usual_steps(problem, copies));
  CHECK(fault_of(problem, first_of(schedule, 40), problem.limits).empty());
  CHECK(schedule.period == schedule.least_period);
  CHECK(schedule.memory() == schedule.least_memory);
  // Every longer period has a schedule where this one has; a shorter one must have none.
  CHECK_FALSE(EveryStart(problem, problem.limits, copies, schedule.period - 1).run());
  std::vector<int64_t> less = problem.limits;
  for (int64_t& limit : less) limit = std::min(limit, schedule.memory() - 1);
  if (schedule.memory() > 0) CHECK_FALSE(EveryStart(problem, less, copies, schedule.period).run());
}

}  // namespace

TEST_CASE("random problems: nothing has a shorter period, or less memory at it") {
  std::mt19937 random(7);
  int solved = 0, impossible = 0;
  for (int i = 0; i < 700; ++i) {
    const int copies = i < 500 ? 1 : i < 600 ? 2 : 3;
    const PipelineProblem problem = copies == 1 ? random_problem(random, 1 + i % 2, i % 2 == 0 ? 2 : 0)
                                                : random_problem(random, 1, copies == 2 && i % 2 == 0 ? 1 : 0);
    if (!faults_of(problem).empty()) {
      ++impossible;
      continue;
    }
    INFO("problem ", i);
    compare(problem, copies);
    ++solved;
  }
  CHECK(solved > 500);
  CHECK(impossible > 0);
}

TEST_CASE("random problems: makespans within limits of memory, and no longer than compacted periods") {
  std::mt19937 random(8);
  for (int i = 0; i < 200; ++i) {
    const PipelineProblem problem = random_problem(random, 1 + i % 3, i % 4);
    if (!faults_of(problem).empty()) continue;
    INFO("problem ", i);
    const PeriodicSchedule schedule = find_periodic_schedule(problem, 1, usual_steps(problem, 1));
    const Makespan makespan = find_makespan(problem, schedule, 5);
    CHECK(fault_of(problem, makespan.starts, problem.limits).empty());
    CHECK(length_of(problem, makespan.starts) == makespan.length);
    CHECK(makespan.least <= makespan.length);
    CHECK(makespan.length <= length_of(problem, compacted(problem, schedule, 5)));
  }
}

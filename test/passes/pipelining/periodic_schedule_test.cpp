// The shortest periods and the least memory of known pipelines (field notes on Tessel's placements).
#include "passes/pipelining/periodic_schedule.h"

#include <doctest/doctest.h>

#include "passes/pipelining/faults.h"
#include "passes/pipelining/gaps.h"
#include "test/passes/pipelining/problems.h"

using namespace weftc;

namespace {

PeriodicSchedule solved(const PipelineProblem& problem, int copies = 1) {
  CHECK(faults_of(problem).empty());
  const PeriodicSchedule schedule = find_periodic_schedule(problem, copies, usual_steps(problem, copies));
  CHECK(fault_of(problem, first_of(schedule, 40), problem.limits).empty());
  for (size_t device = 0; device < problem.limits.size(); ++device)
    CHECK(peak_of(problem, first_of(schedule, 40), static_cast<int>(device)) == schedule.peaks[device]);
  return schedule;
}

void check(const PeriodicSchedule& schedule, int64_t period, int64_t memory) {
  CHECK(schedule.period == period);
  CHECK(schedule.least_period == period);
  CHECK(schedule.memory() == memory);
  CHECK(schedule.least_memory == memory);
}

std::vector<int> devices_up_to(int count) {
  std::vector<int> devices;
  for (int i = 0; i < count; ++i) devices.push_back(i);
  return devices;
}

/// Eight stages on four devices, forward and back; the backward pass is of twice the time.
PipelineProblem two_chunks(const std::vector<int>& stages) {
  std::vector<RowBlock> row;
  for (const int device : stages) row.push_back({{device}, 1, 1});
  for (auto at = stages.rbegin(); at != stages.rend(); ++at) row.push_back({{*at}, 2, -1});
  return row_of_blocks(4, 8, row);
}

}  // namespace

TEST_CASE("a period is the largest load where memory allows, in any unit of time") {
  check(solved(v_shape(4, 4)), 4, 4);
  check(solved(v_shape(8, 8)), 4, 8);
  check(solved(v_shape(4, 4, 1000)), 4000, 4);
  check(solved(v_shape(4, kNoLimit)), 4, 4);
  check(solved(two_chunks({0, 1, 2, 3, 0, 1, 2, 3})), 6, 7);
  check(solved(two_chunks({0, 1, 2, 3, 3, 2, 1, 0})), 6, 6);
}

TEST_CASE("several micro-batches share a period where memory leaves devices idle") {
  check(solved(v_shape(4, 3)), 8, 2);
  check(solved(v_shape(4, 3), 2), 12, 3);
  check(solved(v_shape(4, 3), 3), 16, 3);
  check(solved(v_shape(4, 2), 2), 16, 2);
  check(solved(v_shape(4, 2), 3), 24, 2);
  check(solved(v_shape(4, 3, 1000), 3), 16000, 3);
}

TEST_CASE("blocks on all devices") {
  std::vector<RowBlock> row = {{devices_up_to(4), 1, 0}};
  const PipelineProblem v = v_shape(4, 0);
  for (const PipelineBlock& block : v.blocks) row.push_back({block.devices, block.time, block.memory});
  row.push_back({devices_up_to(4), 1, 0});
  check(solved(row_of_blocks(4, 6, row)), 6, 5);
}

TEST_CASE("blocks on some devices: three of load two that pairwise share one") {
  PipelineProblem problem;
  problem.limits.assign(3, kNoLimit);
  for (const std::vector<int>& devices : {std::vector<int>{0, 1}, {1, 2}, {0, 2}})
    problem.blocks.push_back({devices, 1, 0, {}});
  check(solved(problem), 3, 0);
}

TEST_CASE("devices have limits of their own") {
  PipelineProblem problem = v_shape(4, 4);
  problem.limits = {4, 3, 2, 1};
  check(solved(problem), 4, 4);
  problem.limits = {4, 2, 2, 1};
  CHECK(solved(problem).period > 4);
}

TEST_CASE("without steps, what is found has a bound") {
  const PipelineProblem problem = v_shape(4, 3);
  const PeriodicSchedule schedule = find_periodic_schedule(problem, 1, 0);
  CHECK(fault_of(problem, first_of(schedule, 40), problem.limits).empty());
  CHECK(schedule.least_period <= 8);
  CHECK(schedule.period >= 8);
}

TEST_CASE("gaps between two blocks are sums of what fits between them") {
  PipelineProblem problem = row_of_blocks(1, 0, {{{0}, 2, 0}, {{0}, 3, 0}, {{0}, 4, 0}});
  const std::vector<Gap> tight = gaps_between(problem, 0, 1, 9);
  REQUIRE(tight.size() == 2);
  CHECK(tight[0].least == 2);
  CHECK(tight[0].most == 2);
  CHECK(tight[1].least == 6);
  CHECK(round_to_gap(tight, 3, 9, true) == 6);
  CHECK(round_to_gap(tight, 7, 9, true) == 11);
  CHECK(round_to_gap(tight, 1, 9, false) == -3);
  CHECK(gaps_between(problem, 0, 1, 8).empty());
}

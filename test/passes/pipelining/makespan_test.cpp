// Filling and draining: known makespans of 16 micro-batches (field notes).
#include "passes/pipelining/makespan.h"

#include <doctest/doctest.h>

#include "test/passes/pipelining/problems.h"

using namespace weftc;

namespace {

Makespan filled(const PipelineProblem& problem, int micro_batches) {
  const PeriodicSchedule schedule = find_periodic_schedule(problem, 1, usual_steps(problem, 1));
  CHECK(fault_of(problem, compacted(problem, schedule, micro_batches), problem.limits).empty());
  const Makespan makespan = find_makespan(problem, schedule, micro_batches);
  CHECK(fault_of(problem, makespan.starts, problem.limits).empty());
  CHECK(length_of(problem, makespan.starts) == makespan.length);
  CHECK(makespan.least <= makespan.length);
  return makespan;
}

}  // namespace

TEST_CASE("V shapes fill as 1F1B does") {
  CHECK(filled(v_shape(4, 4), 16).length == 76);
  CHECK(filled(v_shape(4, 4), 16).least == 76);
  CHECK(filled(v_shape(8, 8), 16).length == 92);
  CHECK(filled(v_shape(4, 4), 1).length == 16);
}

TEST_CASE("little memory: what is shorter than compacted periods, and proved") {
  for (const auto& [limit, length] : {std::pair{2, 132}, {3, 96}}) {
    const Makespan makespan = filled(v_shape(4, limit), 16);
    CHECK(makespan.length == length);
    CHECK(makespan.least == length);
  }
}

TEST_CASE("times of their own for each device") {
  const std::vector<int64_t> forward = {2, 3, 3, 2}, backward = {4, 6, 5, 4};
  std::vector<RowBlock> row;
  for (int i = 0; i < 4; ++i) row.push_back({{i}, forward[static_cast<size_t>(i)], 1});
  for (int i = 3; i >= 0; --i) row.push_back({{i}, backward[static_cast<size_t>(i)], -1});
  const Makespan makespan = filled(row_of_blocks(4, 4, row), 16);
  CHECK(makespan.length == 157);  // OR-tools CP-SAT proves the same
  CHECK(makespan.least == 157);
}

TEST_CASE("a bound counts blocks on all devices beside the rest") {
  std::vector<RowBlock> row = {{{0, 1, 2, 3}, 1, 0}};
  const PipelineProblem v = v_shape(4, 0);
  for (const PipelineBlock& block : v.blocks) row.push_back({block.devices, block.time, block.memory});
  row.push_back({{0, 1, 2, 3}, 1, 0});
  CHECK(least_makespan(row_of_blocks(4, 6, row), 16) == 108);
  CHECK(filled(row_of_blocks(4, 6, row), 16).length == 108);
}

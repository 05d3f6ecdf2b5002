// Faults of pipeline problems, and the blocks that have them.
#include <doctest/doctest.h>

#include "passes/pipelining/faults.h"
#include "test/passes/pipelining/problems.h"

using namespace weftc;

namespace {

using FaultKind = PipelineFault::Kind;

PipelineFault only_fault(const PipelineProblem& problem) {
  const std::vector<PipelineFault> faults = faults_of(problem);
  REQUIRE(faults.size() == 1);
  return faults.front();
}

}  // namespace

TEST_CASE("a block that waits for itself") {
  PipelineProblem problem = v_shape(2, 2);
  problem.blocks.insert(problem.blocks.begin(), {{0}, 1, 0, {3}});  // after the circle, not in it
  for (size_t i = 1; i < 5; ++i)
    for (int& earlier : problem.blocks[i].after) ++earlier;
  problem.blocks[2].after.push_back(3);
  CHECK(only_fault(problem).kind == FaultKind::Cycle);
  CHECK(only_fault(problem).block > 1);
}

TEST_CASE("blocks that wait for each other are after the rest alone") {
  PipelineProblem problem = v_shape(2, 2);  // in a row: forward, forward, backward, backward
  problem.blocks[1].after.push_back(2);
  const std::vector<PipelineEdge> cut = cut_circles(problem);
  REQUIRE(cut.size() == 2);
  CHECK(cut[0].from == 2);
  CHECK(cut[0].to == 1);
  CHECK(cut[1].from == 1);
  CHECK(cut[1].to == 2);
  CHECK(problem.blocks[1].after == std::vector{0});
  CHECK(problem.blocks[2].after.empty());
  CHECK(problem.blocks[3].after == std::vector{2});
  CHECK(cut_circles(problem).empty());
}

TEST_CASE("memory is given back after it was taken, and all of it") {
  PipelineProblem problem = row_of_blocks(1, 9, {{{0}, 1, 2}, {{0}, 1, -3}, {{0}, 1, 1}});
  CHECK(only_fault(problem).kind == FaultKind::Freed);
  CHECK(only_fault(problem).block == 1);
  problem = row_of_blocks(1, 9, {{{0}, 1, 2}, {{0}, 1, -1}});
  CHECK(only_fault(problem).kind == FaultKind::Kept);
  CHECK(only_fault(problem).block == 0);
  // Block 2 can have from block 0 alone, so block 3 has to take from block 1.
  problem = row_of_blocks(1, 9, {{{0}, 1, 1}, {{0}, 1, 1}, {{0}, 1, -1}, {{0}, 1, -1}});
  problem.blocks[1].after = {};
  problem.blocks[2].after = {0};
  problem.blocks[3].after = {0, 1};
  CHECK(faults_of(problem).empty());
}

TEST_CASE("the least memory of any order") {
  PipelineFault fault = only_fault(row_of_blocks(2, 2, {{{0}, 1, 2}, {{1}, 1, 3}, {{1}, 1, -3}, {{0}, 1, -2}}));
  CHECK(fault.kind == FaultKind::Memory);
  CHECK(fault.device == 1);
  CHECK(fault.least == 3);
  CHECK(fault.block == 1);
  // Two branches, one after the other: only what is held between them counts.
  PipelineProblem problem = row_of_blocks(1, 3, {{{0}, 1, 4}, {{0}, 1, -3}, {{0}, 1, 3}, {{0}, 1, -2}, {{0}, 1, -2}});
  problem.blocks[2].after = {};
  problem.blocks[4].after = {1, 3};
  CHECK(only_fault(problem).least == 4);
}

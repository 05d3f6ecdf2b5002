// Orders of stages that are no chain of single devices: shared stages, towers, random graphs.
#include <doctest/doctest.h>

#include "test/passes/pipelining/problems.h"
#include "test/passes/pipelining/staged_pipelines.h"

using namespace weftc;

namespace {

void check_order(const StagedPipeline& pipeline, PipelineOrder order, int micro_batches) {
  const OrderedTurns ordered = named_order(pipeline, order, micro_batches);
  CHECK(ordered.refusal == "");
  CHECK(fault_of_order(pipeline, ordered.turns, micro_batches) == "");
  const OrderTimes times = times_of(pipeline.problem, ordered.turns, micro_batches);
  CHECK(fault_of(pipeline.problem, times.starts, times.peaks) == "");
}

}  // namespace

TEST_CASE("shared stages, towers and stages that share devices") {
  for (const int p : {2, 4, 8})
    for (const NamedStages& placement : placements(p))
      for (const TestPasses passes : {TestPasses::Forward, TestPasses::Whole, TestPasses::Split}) {
        CAPTURE(placement.name);
        CAPTURE(p);
        const StagedPipeline pipeline = staged(placement.stages, passes);
        for (const int n : {1, 3, 16}) {
          check_order(pipeline, PipelineOrder::GPipe, n);
          check_order(pipeline, PipelineOrder::OneFOneB, n);
          if (passes == TestPasses::Split) check_order(pipeline, PipelineOrder::ZbH1, n);
        }
      }
}

namespace {

OrderTimes timed(const StagedPipeline& pipeline, PipelineOrder order, int micro_batches) {
  return times_of(pipeline.problem, named_order(pipeline, order, micro_batches).turns, micro_batches);
}

}  // namespace

TEST_CASE("1f1b and zb-h1 of any stages take little memory and not much longer than gpipe, which takes all") {
  for (const int p : {4, 8})
    for (const NamedStages& placement : placements(p)) {
      CAPTURE(placement.name);
      CAPTURE(p);
      const StagedPipeline whole = staged(placement.stages, TestPasses::Whole);
      const StagedPipeline split = staged(placement.stages, TestPasses::Split);
      const OrderTimes named = timed(whole, PipelineOrder::OneFOneB, 16);
      CHECK(7 * named.length <= 8 * timed(whole, PipelineOrder::GPipe, 16).length);
      CHECK(timed(split, PipelineOrder::OneFOneB, 16).length <= named.length);
      CHECK(timed(split, PipelineOrder::ZbH1, 16).length <= timed(split, PipelineOrder::GPipe, 16).length);
      CHECK(timed(split, PipelineOrder::ZbH1, 16).length <= timed(split, PipelineOrder::OneFOneB, 16).length);
      const int64_t peak = *std::max_element(named.peaks.begin(), named.peaks.end());
      for (const int64_t of_split : timed(split, PipelineOrder::ZbH1, 16).peaks) CHECK(of_split <= peak);
    }
}

TEST_CASE("stages without a backward pass do not run ahead of their readers") {
  StagedPipeline pipeline = staged(row_of_stages({0, 1, 2}), TestPasses::Whole);
  // Stage 0 is frozen: block 3, its backward pass, goes; blocks 4 and 5 move up.
  pipeline.problem.blocks.erase(pipeline.problem.blocks.begin() + 3);
  pipeline.stage.erase(pipeline.stage.begin() + 3);
  pipeline.kind.erase(pipeline.kind.begin() + 3);
  pipeline.problem.blocks[3].after = {1, 4};
  pipeline.problem.blocks[4].after = {2};
  const std::vector<PipelineTurn> turns = named_order(pipeline, PipelineOrder::OneFOneB, 6).turns;
  CHECK(fault_of_order(pipeline, turns, 6) == "");
  int ahead = 0, most_ahead = 0;
  for (const PipelineTurn& turn : turns)
    if (turn.block == 0)
      most_ahead = std::max(most_ahead, ++ahead);
    else if (turn.block == 3)
      --ahead;
  CHECK(most_ahead == 3);
}

TEST_CASE("random graphs of stages on random devices") {
  std::mt19937 random(20);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const int count = 1 + static_cast<int>(random() % 7), devices = 1 + static_cast<int>(random() % 4);
    const std::vector<TestStage> stages = random_stages(random, count, devices);
    for (const TestPasses passes : {TestPasses::Forward, TestPasses::Whole, TestPasses::Split}) {
      const StagedPipeline pipeline = staged(stages, passes);
      const int n = 1 + static_cast<int>(random() % 6);
      check_order(pipeline, PipelineOrder::GPipe, n);
      check_order(pipeline, PipelineOrder::OneFOneB, n);
      if (passes == TestPasses::Split) check_order(pipeline, PipelineOrder::ZbH1, n);
    }
  }
}

// Stages that read each other run in step: their named orders are those of one stage.
#include "passes/pipelining/mutual_stages.h"

#include <doctest/doctest.h>

#include "test/passes/pipelining/staged_pipelines.h"

using namespace weftc;

namespace {

/// The blocks of a stage and its micro-batches, in order: "f0 f1 b0 ...".
std::string runs_of(const StagedPipeline& pipeline, const std::vector<PipelineTurn>& turns, int stage) {
  constexpr const char* kLetters[] = {"f", "b", "w"};
  std::string runs;
  for (const PipelineTurn& turn : turns)
    if (pipeline.stage[as_index(turn.block)] == stage)
      runs += format("{}{} ", kLetters[static_cast<int>(pipeline.kind[as_index(turn.block)])], turn.micro_batch);
  return runs;
}

std::vector<PipelineTurn> joined_turns(const StagedPipeline& pipeline, PipelineOrder order, int micro_batches) {
  const JoinedStages joined = join_mutual_stages(pipeline);
  const OrderedTurns made = named_order(joined.pipeline, order, micro_batches);
  REQUIRE(made.refusal == "");
  return turns_of_members(joined, made.turns);
}

}  // namespace

TEST_CASE("stages that read each other run the same passes and micro-batches at a time") {
  // Stage 1 and 2 read each other, 0 is read by 1, and 3 reads 2; 4 is alone.
  std::vector<TestStage> stages = {{{0}, {}}, {{1}, {0, 2}}, {{2}, {1}}, {{3}, {2}}, {{4}, {}}};
  for (const TestPasses passes : {TestPasses::Forward, TestPasses::Whole, TestPasses::Split})
    for (const PipelineOrder order : {PipelineOrder::GPipe, PipelineOrder::OneFOneB}) {
      const StagedPipeline pipeline = staged(stages, passes);
      const JoinedStages joined = join_mutual_stages(pipeline);
      CHECK(joined.first_stages == std::vector<int>{0, 1, 3, 4});
      CHECK(place_of(joined.pipeline, 1) == std::vector<int>{1, 2});
      CHECK(topological_order(joined.pipeline.problem).size() == joined.blocks.size());
      const std::vector<PipelineTurn> turns = joined_turns(pipeline, order, 6);
      CHECK(runs_of(pipeline, turns, 1) == runs_of(pipeline, turns, 2));
      StagedPipeline cut = pipeline;
      CHECK(cut_circles(cut.problem).size() == (passes == TestPasses::Forward ? 2 : 4));
      CHECK(fault_of_order(cut, turns, 6) == "");
    }
}

TEST_CASE("a circle through three stages is one stage, and what it needs in between too") {
  const std::vector<TestStage> stages = {{{0}, {2}}, {{1}, {0}}, {{2}, {1}}};
  const JoinedStages joined = join_mutual_stages(staged(stages, TestPasses::Whole));
  CHECK(joined.first_stages == std::vector<int>{0});
  CHECK(joined.blocks.size() == 2);
}

TEST_CASE("stages that do not read each other stay as they are") {
  for (const NamedStages& placement : placements(4)) {
    const StagedPipeline pipeline = staged(placement.stages, TestPasses::Split);
    const JoinedStages joined = join_mutual_stages(pipeline);
    CHECK(joined.pipeline.stage == pipeline.stage);
    for (const PipelineOrder order : {PipelineOrder::OneFOneB, PipelineOrder::ZbH1})
      CHECK(joined_turns(pipeline, order, 8) == named_order(pipeline, order, 8).turns);
  }
}

// Searched orders keep the limits and are no longer than named ones.
#include <doctest/doctest.h>

#include "passes/pipelining/searched_order.h"
#include "test/passes/pipelining/problems.h"
#include "test/passes/pipelining/staged_pipelines.h"

using namespace weftc;

namespace {

void check_searched(const StagedPipeline& pipeline, int micro_batches, const SearchedOrder& searched) {
  REQUIRE(searched.faults.empty());
  CHECK(fault_of_order(pipeline, searched.turns, micro_batches) == "");
  const OrderTimes times = times_of(pipeline.problem, searched.turns, micro_batches);
  CHECK(times.length == searched.length);
  CHECK(times.peaks == searched.peaks);
  CHECK(searched.least <= searched.length);
  CHECK(fault_of(pipeline.problem, times.starts, pipeline.problem.limits) == "");
}

}  // namespace

TEST_CASE("searched orders of random graphs of stages") {
  std::mt19937 random(21);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const int count = 1 + static_cast<int>(random() % 4), devices = 1 + static_cast<int>(random() % 3);
    const std::vector<TestStage> stages = random_stages(random, count, devices);
    const TestPasses passes = round % 3 == 0 ? TestPasses::Forward : TestPasses::Whole;
    StagedPipeline pipeline = staged(stages, passes);
    for (PipelineBlock& block : pipeline.problem.blocks) block.time = 1 + static_cast<int64_t>(random() % 4);
    const int n = 1 + static_cast<int>(random() % 4);
    const OrderTimes named = times_of(pipeline.problem, named_order(pipeline, PipelineOrder::OneFOneB, n).turns, n);
    pipeline.problem.limits = named.peaks;
    const SearchedOrder searched = searched_order(pipeline, n, 2, 1'000'000);
    check_searched(pipeline, n, searched);
    CHECK(searched.length <= named.length);
  }
}

TEST_CASE("searched orders are no longer than 1f1b in its memory") {
  for (const NamedStages& placement : placements(4)) {
    CAPTURE(placement.name);
    StagedPipeline pipeline = staged(placement.stages, TestPasses::Whole);
    const OrderTimes named = times_of(pipeline.problem, named_order(pipeline, PipelineOrder::OneFOneB, 8).turns, 8);
    pipeline.problem.limits = named.peaks;
    const SearchedOrder searched = searched_order(pipeline, 8, 1, 100'000'000);
    check_searched(pipeline, 8, searched);
    CHECK(searched.length <= named.length);
  }
}

TEST_CASE("searched: a V shape in little memory takes several micro-batches a period") {
  // Forward passes of 1, backward passes of 3, memory for 3 of 4 micro-batches.
  StagedPipeline pipeline = staged(row_of_stages(rounds(4, 1)), TestPasses::Whole);
  for (size_t i = 4; i < 8; ++i) pipeline.problem.blocks[i].time = 3;
  pipeline.problem.limits.assign(4, 6);
  const SearchedOrder searched = searched_order(pipeline, 16, 3, 0);
  check_searched(pipeline, 16, searched);
  CHECK(searched.periodic.period == 16);
  CHECK(searched.periodic.copies == 3);
  CHECK(searched.length == 96);
  CHECK(searched.least == 96);
  CHECK(searched_order(pipeline, 16, 1, 0).periodic.period == 8);
}

TEST_CASE("searched: a named order stands where nothing shorter is found") {
  StagedPipeline pipeline = staged(row_of_stages(rounds(8, 2)), TestPasses::Whole);
  pipeline.problem.limits.assign(8, 2 * 23);  // 2 * (p - 1) + p + 1 passes in flight
  const SearchedOrder searched = searched_order(pipeline, 16, 1, 10'000'000);
  check_searched(pipeline, 16, searched);
  CHECK(searched.length == 117);  // 3 * 2 * 16 + 3 * 7
  CHECK(searched.least == 117);
  CHECK(searched.named == PipelineOrder::Interleaved);
}

TEST_CASE("searched: the same input has the same order") {
  StagedPipeline pipeline = staged(placements(4)[0].stages, TestPasses::Split);
  const SearchedOrder one = searched_order(pipeline, 6, 2, 1'000'000),
                      other = searched_order(pipeline, 6, 2, 1'000'000);
  CHECK(one.turns == other.turns);
}

TEST_CASE("searched: faults instead of turns") {
  StagedPipeline pipeline = staged(row_of_stages({0, 1}), TestPasses::Whole);
  pipeline.problem.limits = {1, 2};
  const SearchedOrder searched = searched_order(pipeline, 4, 1, 0);
  REQUIRE(searched.faults.size() == 1);
  CHECK(searched.faults.front().kind == PipelineFault::Kind::Memory);
  CHECK(searched.turns.empty());
}

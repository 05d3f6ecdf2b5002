// Pictures of orders: the figures of the literature for equal times, levels of memory, and where orders repeat.
#include "passes/pipelining/order_picture.h"

#include <doctest/doctest.h>

#include "test/passes/pipelining/staged_pipelines.h"

using namespace weftc;

namespace {

std::vector<std::string> numbered_names(size_t count) {
  std::vector<std::string> names;
  for (size_t b = 0; b < count; ++b) names.push_back("b" + std::to_string(b));
  return names;
}

OrderPicture picture_of_named(const StagedPipeline& pipeline, PipelineOrder order, int micro_batches) {
  const OrderedTurns named = named_order(pipeline, order, micro_batches);
  REQUIRE(named.refusal.empty());
  return picture_of(pipeline, named.turns, micro_batches, {}, numbered_names(pipeline.kind.size()));
}

StagedPipeline chain(int places, TestPasses passes) { return staged(row_of_stages(rounds(places, 1)), passes); }

}  // namespace

TEST_CASE("order_picture: 1F1B and GPipe have the bubble of the literature") {
  for (const PipelineOrder order : {PipelineOrder::OneFOneB, PipelineOrder::GPipe})
    for (const int p : {2, 4, 8})
      for (const int m : {p, 2 * p, 5 * p}) {
        const OrderPicture picture = picture_of_named(chain(p, TestPasses::Whole), order, m);
        CHECK(picture.length == 3 * (m + p - 1));
        CHECK(picture.bubble() == doctest::Approx((p - 1.0) / (m + p - 1)));
        CHECK(picture.least == picture.length);
        for (int rank = 0; rank < p; ++rank) {
          const PictureLane& lane = picture.lanes[as_index(rank)];
          CHECK(lane.busy == 3 * m);
          // Each micro-batch in flight holds 2.
          CHECK(lane.peak == (order == PipelineOrder::GPipe ? 2 * m : 2 * (p - rank)));
          CHECK(lane.memory.back().bytes == 0);
        }
      }
}

TEST_CASE("order_picture: 1F1B repeats itself between its warm-up and its drain") {
  const OrderPicture picture = picture_of_named(chain(4, TestPasses::Whole), PipelineOrder::OneFOneB, 12);
  REQUIRE(picture.repetend);
  CHECK(picture.repetend->period == 3);
  CHECK(picture.repetend->micro_batches == 1);
  CHECK(picture.repetend->times == 8);
  CHECK(picture.warm_up_end == picture.repetend->begin);
  CHECK(picture.drain_begin == picture.repetend->begin + 24);
  CHECK(picture.length - picture.drain_begin == 11);
}

TEST_CASE("order_picture: GPipe does not repeat itself") {
  const OrderPicture picture = picture_of_named(chain(4, TestPasses::Whole), PipelineOrder::GPipe, 8);
  CHECK_FALSE(picture.repetend);
  CHECK(picture.warm_up_end == 3);
  CHECK(picture.drain_begin == 3 + 8 + 8 * 2);  // the last stage is done
}

TEST_CASE("order_picture: what a period is, whatever the order") {
  // In every period each block starts as often, and at the same distance from its begin.
  const auto check = [](const StagedPipeline& pipeline, const PipelineStarts& starts, const Repetend& repetend) {
    for (size_t b = 0; b < pipeline.kind.size(); ++b) {
      std::vector<std::vector<int64_t>> seen(static_cast<size_t>(repetend.times));
      for (const std::vector<int64_t>& micro_batch : starts)
        if (micro_batch[b] >= repetend.begin && micro_batch[b] < repetend.end())
          seen[as_index(static_cast<int>((micro_batch[b] - repetend.begin) / repetend.period))].push_back(
              (micro_batch[b] - repetend.begin) % repetend.period);
      for (const std::vector<int64_t>& period : seen) {
        CHECK(period == seen.front());
        CHECK(period.size() == as_index(repetend.micro_batches));
      }
    }
  };
  int found = 0;
  for (const NamedStages& stages : placements(4))
    for (const TestPasses passes : {TestPasses::Forward, TestPasses::Whole, TestPasses::Split})
      for (const PipelineOrder order : kPipelineOrders) {
        const StagedPipeline pipeline = staged(stages.stages, passes);
        const OrderedTurns named = named_order(pipeline, order, 16);
        if (!named.refusal.empty()) continue;
        const PipelineStarts starts = times_of(pipeline.problem, named.turns, 16).starts;
        const std::optional<Repetend> repetend = repetend_of(pipeline.problem, starts);
        if (repetend) ++found, check(pipeline, starts, *repetend);
      }
  CHECK(found > 20);
}

TEST_CASE("order_picture: two micro-batches a period") {
  PipelineProblem problem;
  problem.blocks = {{{0}, 1, 0, {}}, {{1}, 1, 0, {0}}};
  problem.limits = {kNoLimit, kNoLimit};
  PipelineStarts starts = {{0, 4}, {1, 7}};  // then pairs of micro-batches, 7 apart
  for (int64_t pair = 0; pair < 3; ++pair)
    starts.push_back({9 + 7 * pair, 11 + 7 * pair}), starts.push_back({10 + 7 * pair, 14 + 7 * pair});
  const std::optional<Repetend> repetend = repetend_of(problem, starts);
  REQUIRE(repetend);
  CHECK(repetend->period == 7);
  CHECK(repetend->micro_batches == 2);
  CHECK(repetend->begin == 4);
  CHECK(repetend->times == 3);
}

TEST_CASE("order_picture: transfers take their time") {
  StagedPipeline pipeline = chain(2, TestPasses::Forward);
  pipeline.transfers = {{0, 1, 5, 0}};
  const OrderPicture picture = picture_of_named(pipeline, PipelineOrder::GPipe, 3);
  CHECK(picture.length == 1 + 3 * 5 + 1);
  CHECK(picture.lanes[1].boxes.front().begin == 6);
  CHECK(picture.bubble() == doctest::Approx(1 - 3.0 / 17));
}

TEST_CASE("order_picture: blocks that run once stand around the micro-batches") {
  const StagedPipeline pipeline = chain(2, TestPasses::Forward);  // of 2 micro-batches: 0 to 3
  const std::vector<OnceBlock> once = {{{0}, 2, false, {}},
                                       {{1}, 1, false, {{0, 1}}},  // waits for the first, and a transfer
                                       {{0}, 4, true, {}},
                                       {{1}, 1, true, {{2, 3}}}};
  const OrderedTurns named = named_order(pipeline, PipelineOrder::GPipe, 2);
  const OrderPicture picture = picture_of(pipeline, named.turns, 2, once, numbered_names(6));
  CHECK(picture.length == 3);
  CHECK(picture.bubble() == doctest::Approx(1.0 / 3));
  const auto begin_of = [&](int rank, int block) {
    for (const PictureBox& box : picture.lanes[as_index(rank)].boxes)
      if (box.block == block) return box.begin;
    FAIL("no box of block " << block);
    return int64_t{0};
  };
  CHECK(begin_of(1, 3) == 0);   // rank 1 begins with its first micro-batch at 1
  CHECK(begin_of(0, 2) == -3);  // 2, and 1 for the transfer
  CHECK(picture.first_begin() == -3);
  CHECK(begin_of(0, 4) == 2);
  CHECK(begin_of(1, 5) == 9);
  CHECK(picture.last_end() == 10);
}

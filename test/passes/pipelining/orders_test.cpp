// Named orders are the tables of the literature: turn by turn where they are small, by length and memory elsewhere.
#include "passes/pipelining/orders.h"

#include <doctest/doctest.h>

#include "test/passes/pipelining/staged_pipelines.h"

using namespace weftc;

namespace {

std::vector<PipelineTurn> turns_in(const StagedPipeline& pipeline, PipelineOrder order, int micro_batches) {
  const OrderedTurns ordered = named_order(pipeline, order, micro_batches);
  REQUIRE(ordered.refusal == "");
  CAPTURE(name_of(order));
  CAPTURE(micro_batches);
  CAPTURE(pipeline.problem.limits.size());
  CHECK(fault_of_order(pipeline, ordered.turns, micro_batches) == "");
  return ordered.turns;
}

OrderTimes times_in(const StagedPipeline& pipeline, PipelineOrder order, int micro_batches) {
  return times_of(pipeline.problem, turns_in(pipeline, order, micro_batches), micro_batches);
}

std::string table_in(const StagedPipeline& pipeline, PipelineOrder order, int micro_batches, int device) {
  return table_of(pipeline, turns_in(pipeline, order, micro_batches), device);
}

int64_t most(const std::vector<int64_t>& peaks) { return *std::max_element(peaks.begin(), peaks.end()); }

/// Numbers of places and of micro-batches.
std::vector<std::pair<int, int>> sizes() {
  std::vector<std::pair<int, int>> all;
  for (const int p : {2, 4, 8})
    for (const int n : {1, 2, p - 1, p, p + 1, 2 * p, 3 * p + 1, 4 * p}) all.push_back({p, n});
  return all;
}

/// The blocks of stage s of p in 1F1B: all forward blocks before the first backward one, then alternating.
std::string one_f_one_b_table(int p, int s, int micro_batches) {
  std::string text;
  const auto add = [&](char first, int m) {
    text += (text.empty() ? "" : " ") + std::string(1, static_cast<char>(first + s)) + std::to_string(m);
  };
  const int warm_up = std::min(p - s - 1, micro_batches);
  for (int m = 0; m < warm_up; ++m) add('a', m);
  for (int m = 0; m < micro_batches; ++m) {
    if (warm_up + m < micro_batches) add('a', warm_up + m);
    add('A', m);
  }
  return text;
}

std::string gpipe_table(int s, int micro_batches) {
  std::string text;
  for (const char first : {'a', 'A'})
    for (int m = 0; m < micro_batches; ++m)
      text += (text.empty() ? "" : " ") + std::string(1, static_cast<char>(first + s)) + std::to_string(m);
  return text;
}

}  // namespace

TEST_CASE("gpipe: all forward passes, then all backward passes") {
  for (const auto& [p, n] : sizes()) {
    const StagedPipeline chain = staged(row_of_stages(rounds(p, 1)), TestPasses::Whole);
    for (int s = 0; s < p; ++s) CHECK(table_in(chain, PipelineOrder::GPipe, n, s) == gpipe_table(s, n));
    const OrderTimes times = times_in(chain, PipelineOrder::GPipe, n);
    CHECK(times.length == 3 * (n + p - 1));
    CHECK(times.peaks == std::vector<int64_t>(static_cast<size_t>(p), 2 * n));
  }
  const StagedPipeline split = staged(row_of_stages({0, 1}), TestPasses::Split);
  CHECK(table_in(split, PipelineOrder::GPipe, 2, -1) == "a0 a1 b0 b1 B0 B1 B0w B1w A0 A1 A0w A1w");
}

TEST_CASE("1f1b: warm-up, one forward and one backward pass, drain") {
  for (const auto& [p, n] : sizes())
    for (const TestPasses passes : {TestPasses::Whole, TestPasses::Split}) {
      const StagedPipeline chain = staged(row_of_stages(rounds(p, 1)), passes);
      const std::vector<PipelineTurn> turns = turns_in(chain, PipelineOrder::OneFOneB, n);
      const OrderTimes times = times_of(chain.problem, turns, n);
      for (int s = 0; s < p; ++s) CHECK(times.peaks[static_cast<size_t>(s)] == 2 * std::min(p - s, n));
      if (passes == TestPasses::Split) continue;
      for (int s = 0; s < p; ++s) CHECK(table_of(chain, turns, s) == one_f_one_b_table(p, s, n));
      CHECK(times.length == 3 * (n + p - 1));
    }
  for (const auto& [p, n] : sizes()) {  // the next stage has its gradient before the weights have theirs
    const StagedPipeline chain = staged(row_of_stages(rounds(p, 1)), TestPasses::Split);
    CHECK(times_in(chain, PipelineOrder::OneFOneB, n).length == 3 * n + 2 * (p - 1));
  }
  const StagedPipeline split = staged(row_of_stages({0, 1}), TestPasses::Split);
  CHECK(table_in(split, PipelineOrder::OneFOneB, 3, 0) == "a0 a1 A0 A0w a2 A1 A1w A2 A2w");
}

TEST_CASE("without backward passes: stage by stage, and the wavefront") {
  const StagedPipeline two = staged(row_of_stages({0, 1}), TestPasses::Forward);
  CHECK(table_in(two, PipelineOrder::GPipe, 3, -1) == "a0 a1 a2 b0 b1 b2");
  CHECK(table_in(two, PipelineOrder::OneFOneB, 3, -1) == "a0 b0 a1 b1 a2 b2");
  const StagedPipeline three = staged(row_of_stages({0, 1, 2}), TestPasses::Forward);
  CHECK(table_in(three, PipelineOrder::OneFOneB, 3, -1) == "a0 b0 a1 c0 b1 a2 c1 b2 c2");
  const StagedPipeline together = staged(row_of_stages({0, 0}), TestPasses::Forward);
  CHECK(table_in(together, PipelineOrder::OneFOneB, 2, -1) == "a0 b0 a1 b1");
  for (const auto& [p, n] : sizes()) {
    const StagedPipeline chain = staged(row_of_stages(rounds(p, 1)), TestPasses::Forward);
    CHECK(times_in(chain, PipelineOrder::OneFOneB, n).length == n + p - 1);
    CHECK(times_in(staged(opposite_chains(p), TestPasses::Forward), PipelineOrder::Chimera, n).length <= 2 * n + p);
  }
}

TEST_CASE("interleaved: Megatron's table, and its bubble and memory") {
  const StagedPipeline two = staged(row_of_stages({0, 1, 0, 1}), TestPasses::Whole);
  CHECK(table_in(two, PipelineOrder::Interleaved, 4, 0) == "a0 a1 c0 c1 a2 C0 a3 C1 c2 A0 c3 A1 C2 C3 A2 A3");
  CHECK(table_in(two, PipelineOrder::Interleaved, 4, 1) == "b0 b1 d0 D0 d1 D1 b2 B0 b3 B1 d2 D2 d3 D3 B2 B3");
  for (const int p : {2, 4, 8})
    for (const int v : {2, 3})
      for (const int n : {p, 2 * p, 4 * p}) {
        const StagedPipeline chain = staged(row_of_stages(rounds(p, v)), TestPasses::Whole);
        const OrderTimes times = times_in(chain, PipelineOrder::Interleaved, n);
        CHECK(times.length == 3 * v * n + 3 * (p - 1));
        CHECK(most(times.peaks) == 2 * std::min(v * n, 2 * (p - 1) + (v - 1) * p + 1));
        const StagedPipeline split = staged(row_of_stages(rounds(p, v)), TestPasses::Split);
        CHECK(times_in(split, PipelineOrder::Interleaved, n).length <= times.length);
        const StagedPipeline forward = staged(row_of_stages(rounds(p, v)), TestPasses::Forward);
        CHECK(times_in(forward, PipelineOrder::Interleaved, n).length == v * n + p - 1);
      }
}

TEST_CASE("zb-h1: the memory of 1f1b, and a third of its bubble") {
  const StagedPipeline two = staged(row_of_stages({0, 1}), TestPasses::Split);
  CHECK(table_in(two, PipelineOrder::ZbH1, 4, 0) == "a0 a1 A0 A0w a2 A1 A1w a3 A2 A2w A3 A3w");
  CHECK(table_in(two, PipelineOrder::ZbH1, 4, 1) == "b0 B0 b1 B1 B0w b2 B2 B1w b3 B3 B2w B3w");
  for (const auto& [p, n] : sizes()) {
    const StagedPipeline chain = staged(row_of_stages(rounds(p, 1)), TestPasses::Split);
    const OrderTimes times = times_in(chain, PipelineOrder::ZbH1, n);
    CHECK(most(times.peaks) == 2 * std::min(p, n));
    if (n >= p)
      CHECK(times.length == 3 * n + p - 1);
    else
      CHECK(times.length <= times_in(chain, PipelineOrder::OneFOneB, n).length);
  }
}

TEST_CASE("zb-v: the memory of 1f1b without a bubble") {
  const StagedPipeline two = staged(row_of_stages(there_and_back(2)), TestPasses::Split);
  CHECK(table_in(two, PipelineOrder::ZbV, 4, 0) ==
        "a0 a1 a2 d0 D0 D0w d1 D1 D1w a3 A0 A0w d2 D2 D2w A1 A1w d3 D3 D3w A2 A2w A3 A3w");
  CHECK(table_in(two, PipelineOrder::ZbV, 4, 1) ==
        "b0 c0 b1 c1 C0 C0w b2 B0 B0w c2 C1 C1w b3 B1 B1w c3 C2 C2w B2 C3 B3 B2w C3w B3w");
  for (const auto& [p, n] : sizes()) {
    const StagedPipeline chain = staged(row_of_stages(there_and_back(p)), TestPasses::Split);
    const OrderTimes times = times_in(chain, PipelineOrder::ZbV, n);
    CHECK(most(times.peaks) <= 2 * 2 * std::min(p, n));
    if (n >= 2 * p - 1) CHECK(times.length == 6 * n + p - 1);
  }
}

TEST_CASE("chimera: two chains fill each other's bubbles") {
  const StagedPipeline four = staged(opposite_chains(4), TestPasses::Whole);
  CHECK(table_in(four, PipelineOrder::Chimera, 2, 0) == "a0 a1 h0 H0 h1 H1 A0 A1");
  CHECK(table_in(four, PipelineOrder::Chimera, 2, 1) == "b0 g0 b1 g1 G0 B0 G1 B1");
  CHECK(table_in(four, PipelineOrder::Chimera, 2, 3) == "e0 e1 d0 D0 d1 D1 E0 E1");
  for (const auto& [p, n] : sizes()) {
    const StagedPipeline chains = staged(opposite_chains(p), TestPasses::Whole);
    const OrderTimes times = times_in(chains, PipelineOrder::Chimera, n);
    CHECK(most(times.peaks) <= 2 * std::min(p, 2 * n));
    if (2 * n >= p) CHECK(times.length == 6 * n + 2 * (p - 2));
    const StagedPipeline split = staged(opposite_chains(p), TestPasses::Split);
    CHECK(times_in(split, PipelineOrder::Chimera, n).length <= times.length);
  }
  for (int s = 0; s < 8; ++s)  // of one unit: p / 2 micro-batches either way, from p / 2 + 1 in memory to p
    CHECK(times_in(staged(opposite_chains(8), TestPasses::Whole), PipelineOrder::Chimera, 4)
              .peaks[static_cast<size_t>(s)] == 2 * (std::min(8 - s, 4) + std::min(s + 1, 4)));
}

TEST_CASE("dualpipe: DeepSeek's table") {
  const StagedPipeline two = staged(opposite_chains(2), TestPasses::Split);
  CHECK(table_in(two, PipelineOrder::DualPipe, 2, 0) == "a0 d0 a1 D0 D0w d1 A0 A0w D1 D1w A1 A1w");
  CHECK(table_in(two, PipelineOrder::DualPipe, 2, 1) == "c0 b0 c1 B0 B0w b1 C0 C0w B1 B1w C1 C1w");
  for (const auto& [p, n] : sizes()) {
    const StagedPipeline chains = staged(opposite_chains(p), TestPasses::Split);
    const OrderTimes times = times_in(chains, PipelineOrder::DualPipe, n);
    CHECK(most(times.peaks) <= 2 * std::min(p + 1, 2 * n));
    if (n >= p) CHECK(times.length == 6 * n + p / 2 - 1);
  }
}

TEST_CASE("a place of several devices is a place") {
  std::vector<TestStage> stages = row_of_stages(there_and_back(2));
  for (TestStage& stage : stages) stage.devices = {2 * stage.devices[0] + 1, 2 * stage.devices[0]};
  const StagedPipeline pipeline = staged(stages, TestPasses::Split);
  const StagedPipeline single = staged(row_of_stages(there_and_back(2)), TestPasses::Split);
  for (const PipelineOrder order : {PipelineOrder::OneFOneB, PipelineOrder::ZbH1, PipelineOrder::ZbV})
    CHECK(table_in(pipeline, order, 4, 3) == table_in(single, order, 4, 1));
}

TEST_CASE("tables do not depend on the times of the problem") {
  StagedPipeline slow = staged(row_of_stages(rounds(4, 1)), TestPasses::Split);
  const StagedPipeline unit = slow;
  for (size_t i = 0; i < slow.problem.blocks.size(); ++i) slow.problem.blocks[i].time = 100 + 37 * (i % 5);
  for (const PipelineOrder order : {PipelineOrder::GPipe, PipelineOrder::OneFOneB, PipelineOrder::ZbH1})
    CHECK(turns_in(slow, order, 6) == turns_in(unit, order, 6));
}

TEST_CASE("starts and memory of a list") {
  // Two devices; the first block is on both, the others on one each.
  StagedPipeline pipeline = staged({{{0, 1}, {}}, {{0}, {0}}, {{1}, {0}}}, TestPasses::Forward);
  pipeline.problem.blocks[0].memory = 3;
  pipeline.problem.blocks[1].time = 4;
  pipeline.problem.blocks[1].memory = -3;
  pipeline.problem.blocks[2].time = 2;
  const OrderTimes times = times_of(pipeline.problem, {{0, 0}, {1, 0}, {2, 0}, {0, 1}, {2, 1}, {1, 1}}, 2);
  CHECK(times.starts == PipelineStarts{{0, 1, 1}, {5, 6, 6}});
  CHECK(times.length == 10);
  CHECK(times.peaks == std::vector<int64_t>{3, 6});
  // The same devices with the shared block of both micro-batches first.
  const OrderTimes ahead = times_of(pipeline.problem, {{0, 0}, {0, 1}, {1, 0}, {2, 0}, {2, 1}, {1, 1}}, 2);
  CHECK(ahead.starts == PipelineStarts{{0, 2, 2}, {1, 6, 4}});
  CHECK(ahead.peaks == std::vector<int64_t>{6, 6});
  CHECK(turns_of(pipeline.problem, times.starts) ==
        std::vector<PipelineTurn>{{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}});
}

namespace {

std::string refusal_of(const std::vector<TestStage>& stages, TestPasses passes, PipelineOrder order, int n = 4) {
  const auto letter = [](int stage) { return std::string(1, static_cast<char>('a' + stage)); };
  const OrderedTurns ordered = named_order(staged(stages, passes), order, n, letter);
  CHECK(ordered.turns.empty() == !ordered.refusal.empty());
  CHECK((ordered.refusal.empty() || ordered.refusal.starts_with(std::string(name_of(order)) + " needs ")));
  const size_t detail = ordered.refusal.find(": ");
  return detail == std::string::npos ? ordered.refusal : ordered.refusal.substr(detail + 2);
}

}  // namespace

TEST_CASE("refusals of interleaved") {
  const auto refusal = [](const std::vector<int>& devices, int n) {
    return refusal_of(row_of_stages(devices), TestPasses::Whole, PipelineOrder::Interleaved, n);
  };
  CHECK(refusal({0, 1, 0, 1}, 4) == "");
  CHECK(refusal({0, 1, 0, 1}, 3) == "there are 3 micro-batches and 2 places");
  CHECK(refusal({0, 1, 2}, 3) == "each place has one stage, which is what 1f1b is for");
  CHECK(refusal({0, 1, 1, 0}, 4) == "stages 'b' and 'c' are at one place");
  CHECK(refusal({0, 1, 2, 0, 2, 1}, 3) == "stage 'e' is not at the place of stage 'b'");
  CHECK(refusal({0, 1, 0}, 4) == "3 stages are no multiple of 2 places");
  CHECK(refusal({0, 0}, 4) == "stages 'a' and 'b' are at one place");
  std::vector<TestStage> towers = row_of_stages({0, 1, 0, 1});
  towers[2].reads.clear();
  CHECK(refusal_of(towers, TestPasses::Whole, PipelineOrder::Interleaved) == "stage 'c' does not read stage 'b'");
  std::vector<TestStage> shared = row_of_stages({0, 1, 0, 1});
  shared[0].devices = {0, 1};
  CHECK(refusal_of(shared, TestPasses::Whole, PipelineOrder::Interleaved) ==
        "stages 'a' and 'b' share some of their devices, but not all");
}

TEST_CASE("refusals of orders with split backward passes") {
  const std::vector<TestStage> chain = row_of_stages({0, 1, 1, 0});
  for (const PipelineOrder order : {PipelineOrder::ZbH1, PipelineOrder::ZbV, PipelineOrder::DualPipe}) {
    CHECK(refusal_of(chain, TestPasses::Forward, order) == "there are only forward passes");
    CHECK(refusal_of(chain, TestPasses::Whole, order).starts_with("no backward pass is split, since "));
  }
  CHECK(refusal_of(chain, TestPasses::Split, PipelineOrder::ZbV) == "");
  StagedPipeline partly = staged(chain, TestPasses::Split);
  partly.problem.blocks.pop_back(), partly.stage.pop_back(), partly.kind.pop_back();
  CHECK(named_order(partly, PipelineOrder::ZbH1, 4).refusal == "");
  CHECK(named_order(partly, PipelineOrder::ZbV, 4)
            .refusal.find(": the backward pass of stage '3' is not split, since ") != std::string::npos);
}

TEST_CASE("refusals of zb-v, chimera and dualpipe by place") {
  const auto in_row = [](const std::vector<int>& devices, PipelineOrder order) {
    return refusal_of(row_of_stages(devices), TestPasses::Split, order);
  };
  CHECK(in_row({0, 1, 2}, PipelineOrder::ZbV) == "3 is an odd number of stages");
  CHECK(in_row({0, 1, 0, 1}, PipelineOrder::ZbV) == "stage 'd' is not at the place of stage 'a'");
  CHECK(in_row({0, 0, 0, 0}, PipelineOrder::ZbV) == "stages 'a' and 'b' are at one place");
  CHECK(in_row({0, 1, 1, 0}, PipelineOrder::Chimera) == "all stages read stage 'a'");
  std::vector<TestStage> stages = opposite_chains(3);
  CHECK(refusal_of(stages, TestPasses::Split, PipelineOrder::Chimera) == "");
  CHECK(refusal_of(stages, TestPasses::Split, PipelineOrder::DualPipe) == "there are 3 places");
  stages[2].reads.push_back(3);
  CHECK(refusal_of(stages, TestPasses::Split, PipelineOrder::Chimera) ==
        "stage 'c' reads both stage 'a' and stage 'd'");
  stages = opposite_chains(2);
  stages[3].devices = {1};
  CHECK(refusal_of(stages, TestPasses::Split, PipelineOrder::Chimera) == "stage 'd' is not at the place of stage 'a'");
  stages.pop_back();
  CHECK(refusal_of(stages, TestPasses::Split, PipelineOrder::DualPipe) ==
        "the chains of stages 'a' and 'c' have 2 and 1 stages");
}

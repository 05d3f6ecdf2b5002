// The costs of a pipeline's blocks: predecessors, transfers, and memory that its consumer frees.
#include "passes/cost/block_costs.h"

#include <algorithm>

#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr const char* kThreeStages = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6, 64] w1 = random(1, 0.5), float[64, 64] w2 = random(2, 0.5), float[64, 6] w3 = random(3, 0.5)> {
  [fc1] h1 = MatMul(x, w1) [act1] g1 = Tanh(h1) [fc2] h2 = MatMul(g1, w2) [act2] g2 = Tanh(h2) [fc3] y = MatMul(g2, w3)
})";

BlockCosts costs_of(const Planned& made) {
  const Module& module = *made.scheduled->module;
  return block_costs(made.plan, *module.pipeline, CostModel(made.plan, module, ceilings_of(made.scheduled->target)));
}

Planned staged(const std::string& more) {
  return plan_of(
      kThreeStages,
      "weft: 1\npipeline: {stages: {a: [fc1, act1], b: [fc2, act2], c: rest}, micro_batches: 3, order: 1f1b" + more +
          "}\ntrain:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n"
          "  optimizer: {sgd: {rate: 0.1}}\n");
}

int number_of(const Planned& made, const BlockCosts& costs, const std::string& name) {
  for (size_t b = 0; b < costs.blocks.size(); ++b)
    if (made.plan.blocks[static_cast<size_t>(costs.blocks[b])].name == name) return static_cast<int>(b);
  FAIL("no block " << name);
  return -1;
}

}  // namespace

TEST_CASE("block_costs: forward and backward passes, each after what it reads") {
  const Planned made = staged("");
  const BlockCosts costs = costs_of(made);
  const auto number = [&](const char* name) { return number_of(made, costs, name); };
  const auto after = [&](const char* name) {
    std::vector<int> all = costs.pipeline.problem.blocks[static_cast<size_t>(number(name))].after;
    std::ranges::sort(all);
    return all;
  };
  const auto sorted = [](std::vector<int> all) {
    std::ranges::sort(all);
    return all;
  };
  REQUIRE(costs.blocks.size() == 6);
  CHECK(after("a_forward").empty());
  CHECK(after("b_forward") == std::vector{number("a_forward")});
  CHECK(after("c_backward") == sorted({number("c_forward")}));
  CHECK(after("b_backward") == sorted({number("b_forward"), number("c_backward")}));
  CHECK(after("a_backward") == sorted({number("a_forward"), number("b_backward")}));
  CHECK(costs.pipeline.transfers.size() == 4);
  for (const PipelineTransfer& transfer : costs.pipeline.transfers) CHECK(transfer.time > 0);
  CHECK(with_transfers(costs.pipeline).blocks.size() == 10);
}

TEST_CASE("block_costs: what a forward pass keeps its backward pass gives back") {
  for (const char* more : {"", ", backward: split"}) {
    const Planned made = staged(more);
    const BlockCosts costs = costs_of(made);
    const std::vector<PipelineBlock>& blocks = costs.pipeline.problem.blocks;
    std::vector<int64_t> left(3, 0);
    for (const PipelineBlock& block : blocks)
      for (const int rank : block.devices) left[static_cast<size_t>(rank)] += block.memory;
    CHECK(left == std::vector<int64_t>{0, 0, 0});
    // g1 and g2 of four samples of 64 floats.
    CHECK(blocks[static_cast<size_t>(number_of(made, costs, "a_forward"))].memory >= 4 * 64 * 4);
    CHECK(blocks[static_cast<size_t>(number_of(made, costs, "b_forward"))].memory >= 4 * 64 * 4);
    for (const int64_t bytes : costs.others) CHECK(bytes > 0);
    for (size_t b = 0; b < blocks.size(); ++b) CHECK(blocks[b].time > 0);
  }
}

TEST_CASE("block_costs: stages that read each other run side by side") {
  const std::string stages = "weft: 1\npipeline: {stages: {a: [fc1, fc3], b: [act1, fc2, act2]}, micro_batches: 2}\n";
  for (const std::string& more :
       {std::string(), std::string("train:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n"
                                   "  optimizer: {sgd: {rate: 0.1}}\n")}) {
    const Planned made = plan_of(kThreeStages, stages + more);
    const BlockCosts costs = costs_of(made);
    CHECK(costs.mutual.size() == (more.empty() ? 2 : 4));
    CHECK(topological_order(costs.pipeline.problem).size() == costs.blocks.size());
    CHECK(costs.pipeline.transfers.empty());
    std::vector<PipelineTurn> turns;
    for (const OrderedBlock& turn : made.plan.order)
      if (const auto at = std::ranges::find(costs.blocks, turn.block); at != costs.blocks.end())
        turns.push_back({static_cast<int>(at - costs.blocks.begin()), turn.micro_batch});
    const std::vector<std::string> names(costs.blocks.size() + costs.once.size(), "block");
    CHECK(picture_of(costs.pipeline, turns, 2, costs.once, names).length > 0);
  }
}

// Layouts that people know, of any model: they are those of schedules that people write, and what a model does not have
// is said.
#include "test/fixtures.h"
#include "test/passes/known_models.h"
#include "test/passes/sharding_plans.h"

using namespace weftc;
using namespace weftc::test;

namespace {

std::map<std::string, KnownPlan> known_by_name(Scheduled& made, const Machine& machine) {
  PlanLimits limits;
  limits.ranks = machine.ranks;
  std::map<std::string, KnownPlan> plans;
  for (KnownPlan& known : known_plans(*made.module, made.schedule, made.target, machine, limits))
    plans.emplace(known.name, std::move(known));
  return plans;
}

/// The plan of that name takes what a schedule does that a person has written, to the last collective.
void check_alike(Scheduled& made, const KnownPlan& known, const std::string& yaml, const Machine& machine) {
  CAPTURE(known.name);
  CHECK(known.missing == "");
  REQUIRE(known.plan);
  const LaidOut hand = laid_out_by(made, yaml, machine);
  CHECK(known.plan->seconds == doctest::Approx(hand.seconds).epsilon(1e-9));
  CHECK(known.plan->peak == hand.peak);
  std::map<OpKind, int> exchanges;
  int64_t bytes = 0;
  for (const ExchangeSum& sum : known.plan->exchanges)
    exchanges[sum.kind] += static_cast<int>(sum.count), bytes += sum.bytes;
  CHECK(exchanges == hand.exchanges);
  CHECK(bytes == hand.bytes);
}

const char* const kTrainedOnSquares =
    "train:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n  optimizer: {adamw: {rate: 1e-3}}\n";

std::string products(int layers, int rows, int width) {
  return kProducts.of(layers, {{"ROWS", std::to_string(rows)}, {"WIDTH", std::to_string(width)}});
}

}  // namespace

TEST_CASE("known layouts: data parallel and FSDP are the schedules that people write") {
  const Machine machine = flat_machine(4);
  const auto made = model_until_layouts(products(4, 64, 64), kTrainedOnSquares, 4);
  const auto plans = known_by_name(*made, machine);
  const std::string samples = "weft: 1\nmesh: {dp: 4}\nshard:\n  \"x.0\": {dp: 0}\n  target: {dp: 0}\n";
  check_alike(*made, plans.at("all ranks alike"), "weft: 1\nmesh: {dp: 4}\n", machine);
  check_alike(*made, plans.at("data parallel"), samples, machine);
  check_alike(*made, plans.at("FSDP"), samples + "  \"l.{l}.w\": {dp: 0}\n  \"l.{l}.w.use\": {dp: R}\n", machine);
}

TEST_CASE("known layouts: Megatron's products are of columns and rows in turn, however many samples there are") {
  std::string by_hand = "weft: 1\nmesh: {tp: 4}\nshard:\n";
  for (int layer = 0; layer < 6; ++layer) by_hand += format("  \"l.{}.w\": {tp: {}}\n", layer, 1 - layer % 2);
  for (const int rows : {32, 4096}) {
    CAPTURE(rows);
    const Machine machine = machine_of_products(4, 1e9, 2e-5);
    const auto made = model_until_layouts(products(6, rows, 256), kTrainedOnSquares, 4);
    const auto plans = known_by_name(*made, machine);
    REQUIRE(plans.at("Megatron").plan);
    const ShardingPlan& plan = *plans.at("Megatron").plan;
    CHECK(!entries_of(plan).contains("x.0"));
    CHECK(plan.seconds <= laid_out_by(*made, by_hand, machine).seconds * 1.01);
    int64_t bytes = 0;
    for (const ExchangeSum& sum : plan.exchanges) bytes += sum.bytes;
    CHECK(bytes >= 5 * 2 * 3 * (int64_t{rows} * 256 * 4) / 4);  // of values and their derivatives, not of weights
    if (rows == 32) CHECK(plan.collectives() == 5);
  }
}

TEST_CASE("known layouts: what a model does not have, or where memory is too small, is said") {
  Machine machine = flat_machine(4);
  const auto few = model_until_layouts(products(2, 2, 64), "", 4);
  auto plans = known_by_name(*few, machine);
  CHECK(plans.at("data parallel").missing == "2 samples are too few for 4 ranks");
  CHECK(plans.at("FSDP").missing == "2 samples are too few for 4 ranks");
  CHECK(!plans.at("FSDP").plan);
  const int64_t all = plans.at("all ranks alike").plan->peak;
  machine.memory = all * 2 / 3;
  plans = known_by_name(*few, machine);
  CHECK(plans.at("all ranks alike").missing == "too little memory");
  CHECK(plans.at("all ranks alike").plan->peak == all);
  CHECK(plans.at("Megatron").missing == "");
  machine.memory = 100;
  CHECK(known_by_name(*few, machine).at("Megatron").missing == "too little memory");
  const auto bare = model_until_layouts(R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[1, 8] x) => (float[1, 8] y) { [relu] y = Relu(x) })",
                                        "", 4);
  plans = known_by_name(*bare, machine);
  CHECK(plans.at("data parallel").missing == "no input has more than one sample");
  CHECK(plans.at("Megatron").missing == "no product has a parameter with slices for 4 ranks");
}

TEST_CASE("known layouts: entries of the user stay") {
  const Machine machine = flat_machine(4);
  const auto made = model_until_layouts(products(2, 64, 64), "shard: {\"l.0.w\": {x: 1}, \"x.0\": {x: R}}\n", 4);
  const auto plans = known_by_name(*made, machine);
  for (const char* name : {"data parallel", "FSDP"}) {
    CAPTURE(name);
    CHECK(plans.at(name).missing == "");
    const auto entries = entries_of(*plans.at(name).plan);
    CHECK(!entries.contains("l.0.w"));
    CHECK(!entries.contains("x.0"));
  }
}

TEST_CASE("a solution says how many choices reduction has left of each node") {
  PartitionProblem problem;
  for (const std::vector<int64_t>& costs : {std::vector<int64_t>{1, 9, 1}, {0, 0}, {0, 0}}) {
    problem.nodes.emplace_back();
    problem.nodes.back().costs = costs;
  }
  // The second choice is worse whatever the others do; the third node follows the second one.
  problem.edges = {{0, 1, {0, 5, 0, 5, 5, 0}}, {1, 2, {0, kForbiddenCost, kForbiddenCost, 0}}};
  const PartitionSolution solution = solve_partition(problem, {});
  CHECK(solution.cost == 1);
  REQUIRE(solution.left.size() == 3);
  CHECK(solution.left[0] <= 2);
  CHECK(solution.left[2] == 1);
}

TEST_CASE("a plan says how large its search was, and what its entries share out") {
  const auto made = model_until_layouts(products(6, 32, 256), kTrainedOnSquares, 4);
  const ShardingPlan plan = best_plan(*made, machine_of_products(4, 1e9, 2e-5), meshes_of(4).front());
  REQUIRE(plan.search);
  int64_t before = 0, after = 0, ways = 0, ways_left = 0;
  for (const auto& [number, ops] : plan.search->ways) before += ops, ways += number * ops;
  for (const auto& [number, ops] : plan.search->ways_left) after += ops, ways_left += number * ops;
  CHECK(before == plan.search->ops);
  CHECK(after == plan.search->ops);
  CHECK(plan.search->ops == static_cast<int64_t>(made->module->graph.order().size()));
  CHECK(ways_left <= ways);
  CHECK(ways_left >= plan.search->ops);
  bool is_weight_there = false;
  for (const PlannedEntry& planned : plan.entries) {
    if (planned.entry.target.text.find(".w") == std::string::npos) continue;
    is_weight_there = true;
    CHECK(planned.share.whole == planned.share.values * 256 * 256 * 4);
    CHECK(planned.share.of_rank == planned.share.whole / 4);
  }
  CHECK(is_weight_there);
}

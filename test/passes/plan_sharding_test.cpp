// Plans of layouts from graphs alone: they compute what one rank computes, no schedule that is drawn takes less, and
// the plans that people know are found again.
#include "passes/sharding/plan_sharding.h"

#include "passes/cost/machine.h"
#include "passes/layout/layout_trial.h"
#include "test/effort.h"
#include "test/passes/random_model.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// Ranks of one level; what they send takes as long as what they compute, about.
Machine flat_machine(int ranks, double bandwidth = 1e9, double latency = 1e-6) {
  Machine machine;
  machine.ceilings = ceilings_of(Target());
  machine.ranks = ranks;
  NetworkLevel level;
  level.name = "link", level.ranks = ranks, level.bandwidth = bandwidth, level.latency = latency;
  machine.levels = {level};
  return machine;
}

std::unique_ptr<Scheduled> until_layouts(std::unique_ptr<Scheduled> made, int ranks) {
  made->schedule.mesh = meshes_of(ranks).front();
  RunOptions options;
  options.stop_after = "bind-collectives";
  run_pipeline(*made->module, {made->schedule, made->target, made->diags}, options, made->report);
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  return made;
}

std::unique_ptr<Scheduled> random_graph(uint32_t seed, int ranks) {
  Dice dice(seed);
  auto made = std::make_unique<Scheduled>();
  made->module = RandomModel(dice, 3 + dice.roll(8)).take();
  return until_layouts(std::move(made), ranks);
}

/// The module under a plan, laid out.
void take(Scheduled& made, const ShardingPlan& plan) {
  made.module->places.front().mesh = plan.mesh;
  made.schedule.mesh = plan.mesh;
  for (const PlannedEntry& planned : plan.entries) made.schedule.shard.push_back(planned.entry);
  LayoutTrial trial = try_layouts(*made.module, {made.schedule, made.target, made.diags});
  REQUIRE_MESSAGE(made.diags.ok(), made.diags.text());
  made.module->graph = std::move(trial.graph);
}

/// The best plan of all, or of those on one axis.
ShardingPlan best_plan(Scheduled& made, const Machine& machine, size_t most_axes = 2) {
  PlanLimits limits;
  limits.ranks = machine.ranks, limits.near = 1e9;
  std::vector<ShardingPlan> plans = plan_sharding(*made.module, made.schedule, made.target, machine, limits);
  std::erase_if(plans, [&](const ShardingPlan& plan) { return plan.mesh.size() > most_axes; });
  REQUIRE(!plans.empty());
  return plans.front();
}

}  // namespace

TEST_CASE("plans of random graphs compute what one rank computes, and no drawn schedule takes less") {
  const int graphs = is_full() ? 200 : random_cases(20);
  int better = 0, drawn = 0;
  for (int seed = 1; seed <= graphs; ++seed) {
    CAPTURE(seed);
    const int ranks = seed % 2 == 0 ? 2 : 4;
    const Machine machine = flat_machine(ranks, seed % 3 == 0 ? 1e7 : 1e9);
    const auto made = random_graph(static_cast<uint32_t>(seed), ranks);
    const auto one = random_graph(static_cast<uint32_t>(seed), 1);
    const ShardingPlan plan = best_plan(*made, machine);
    CHECK(plan.seconds >= plan.bound * 0.999);
    for (int d = 0; d < 20; ++d) {
      Dice dice(static_cast<uint32_t>(1000 * seed + d));
      Schedule schedule = random_schedule(dice, *made->module);
      if (mesh_size(schedule.mesh) != ranks) continue;
      made->module->places.front().mesh = schedule.mesh;
      Diags refused;
      const LayoutTrial trial = try_layouts(*made->module, {schedule, made->target, refused});
      if (!refused.ok()) continue;
      const int64_t cost = laid_out_cost(*made->module, trial.graph, machine.ceilings,
                                         [&](OpKind kind, int64_t before, int64_t after, const std::vector<int>& axes) {
                                           return collective_seconds(machine, kind, before, after,
                                                                     group_of(machine, schedule.mesh, axes));
                                         });
      ++drawn;
      better += plan.seconds <= static_cast<double>(cost) * 1e-12 * 1.001;
    }
    take(*made, plan);
    const std::vector<Tensor> inputs = seeded_inputs(*one->module);
    const EvalResult a = evaluate(*made->module, inputs), b = evaluate(*one->module, inputs);
    REQUIRE_MESSAGE(a.error.empty(), a.error);
    REQUIRE_MESSAGE(b.error.empty(), b.error);
    for (size_t i = 0; i < a.outputs.size(); ++i) CHECK(agree(a.outputs[i], b.outputs[i]));
  }
  MESSAGE("of " << drawn << " drawn schedules " << better << " take no less");
  CHECK(better == drawn);
}

namespace {

std::unique_ptr<Scheduled> model_until_layouts(const std::string& model, const std::string& yaml, int ranks) {
  auto made = prepare(model, "weft: 1\nmesh: {x: " + std::to_string(ranks) + "}\n" + yaml, "bind-collectives");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  return made;
}

/// By name: what an entry says of its only axis, "1", "0", "R".
std::map<std::string, std::string> entries_of(const ShardingPlan& plan) {
  std::map<std::string, std::string> entries;
  for (const PlannedEntry& planned : plan.entries) {
    const AxisRequest& axis = planned.entry.axes.front();
    const std::string parts = axis.parts > 1 ? " in " + std::to_string(axis.parts) : "";
    entries[planned.entry.target.text + (planned.entry.use ? ".use" : "")] =
        axis.replicated ? "R" : std::to_string(axis.dim) + parts;
  }
  return entries;
}

/// A layer of a transformer with few rows, whose weights are most of the work.
const char* const kAttention = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[1, 4, 256] x) => (float[1, 4, 256] y)
<float[256, 768] qkv_w = random(1, 0.05), float[256, 256] out_w = random(2, 0.05), int64[4] heads = {1, 4, 8, 32},
 int64[3] flat = {1, 4, 256}, int64[3] parts = {256, 256, 256}> {
  [qkv] qkv = MatMul(x, qkv_w) [cut] q, k, v = Split<axis = 2>(qkv, parts)
  [q1] q1 = Reshape(q, heads) [k1] k1 = Reshape(k, heads) [v1] v1 = Reshape(v, heads)
  [q2] q2 = Transpose<perm = [0, 2, 1, 3]>(q1) [k2] k2 = Transpose<perm = [0, 2, 3, 1]>(k1)
  [v2] v2 = Transpose<perm = [0, 2, 1, 3]>(v1)
  [scores] s = MatMul(q2, k2) [soft] p = Softmax(s) [mix] o = MatMul(p, v2)
  [back] o1 = Transpose<perm = [0, 2, 1, 3]>(o) [join] o2 = Reshape(o1, flat) [out] y = MatMul(o2, out_w)
})";

const char* const kPerceptron = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[ROWS, WIDTH] x, float[ROWS, WIDTH] target) => (float[ROWS, WIDTH] y)
<float[WIDTH, HIDDEN] up_w = random(1, 0.05), float[HIDDEN, WIDTH] down_w = random(2, 0.05)> {
  [up] h = MatMul(x, up_w) [act] a = Gelu(h) [down] y = MatMul(a, down_w)
})";

std::string perceptron(int rows, int width, int hidden) {
  std::string text = kPerceptron;
  for (const auto& [name, number] : {std::pair<std::string, int>{"ROWS", rows}, {"WIDTH", width}, {"HIDDEN", hidden}})
    for (size_t at; (at = text.find(name)) != std::string::npos;) text.replace(at, name.size(), std::to_string(number));
  return text;
}

const char* const kTraining =
    "train:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n  optimizer: {adamw: {rate: 1e-3}}\n";

}  // namespace

TEST_CASE("attention with few rows is sliced by heads, as Megatron does, with one exchange") {
  const auto made = model_until_layouts(kAttention, "", 4);
  const ShardingPlan plan = best_plan(*made, flat_machine(4), 1);
  const std::map<std::string, std::string> entries = entries_of(plan);
  CHECK(entries.contains("qkv_w"));
  CHECK(entries.at("qkv_w") == "1 in 3");
  CHECK(plan.collectives == 1);
}

TEST_CASE("a perceptron of few rows is sliced by columns and rows, with one exchange") {
  const auto made = model_until_layouts(perceptron(4, 256, 1024), "", 4);
  const ShardingPlan plan = best_plan(*made, flat_machine(4), 1);
  CHECK(entries_of(plan).at("up_w") == "1");
  CHECK(plan.collectives == 1);
}

TEST_CASE("a training of many rows and small weights is data parallel: one exchange a parameter, or two of half") {
  const auto made = model_until_layouts(perceptron(1024, 16, 32), kTraining, 4);
  const ShardingPlan plan = best_plan(*made, flat_machine(4), 1);
  CHECK(entries_of(plan).at("x") == "0");
  CHECK(plan.collectives <= 5);  // each parameter's gradient scattered and the parameter gathered, and the loss
}

TEST_CASE("weights that do not fit beside each other are sliced until they do") {
  const auto made = model_until_layouts(perceptron(256, 256, 512), "", 4);
  const auto again = model_until_layouts(perceptron(256, 256, 512), "", 4);
  Machine machine = flat_machine(4);
  const ShardingPlan free = best_plan(*made, machine);
  CHECK(entries_of(free).contains("x"));
  machine.memory = free.peak * 85 / 100;
  const ShardingPlan tight = best_plan(*again, machine);
  CHECK(tight.peak <= machine.memory);
  CHECK(tight.seconds >= free.seconds);
}

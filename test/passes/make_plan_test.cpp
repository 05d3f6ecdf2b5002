// Plans: what runs, where it lies, and that running it gives what the graph gives.
#include <cstdlib>

#include "test/passes/planned.h"
#include "test/passes/random_model.h"

using namespace weftc;
using namespace weftc::test;

namespace {

void check_proved(const Plan& plan) {
  const std::vector<std::string> wrong = prove_plan(plan);
  INFO(print_plan(plan));
  for (const std::string& line : wrong) CHECK_MESSAGE(false, line);
}

/// The Plan, in several orders, gives what one rank gives.
void check_runs(const std::string& model, const std::string& yaml, uint32_t seeds = 10) {
  const Planned made = plan_of(model, yaml);
  check_proved(made.plan);
  const auto one = prepare(model, "", "decompose");
  const EvalResult expected = evaluate(*one->module, seeded_inputs(*one->module));
  REQUIRE(expected.error.empty());
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    const PlanRun run = evaluate_plan(made.plan, port_inputs(made.plan), seed);
    INFO(run.error);
    REQUIRE(run.error.empty());
    for (size_t i = 0; i < run.outputs.size(); ++i) CHECK(relative_error(run.outputs[i], expected.outputs[i]) < 2e-5);
  }
}

/// Values that cancel to nothing differ by their rounding to float.
double error_of(const Tensor& a, const Tensor& b) {
  double difference = 0;
  if (a.dims != b.dims) return 1;
  for (int64_t i = 0; i < a.size(); ++i) difference = std::max(difference, std::abs(a.at(i) - b.at(i)));
  return std::min(relative_error(a, b), difference);
}

int count_kind(const std::string& text, const std::string& word) {
  int n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("one rank: contractions, weights in panels, one stream") {
  const Planned made = plan_of(kMlp);
  CHECK(made.plan.streams == std::vector<std::string>{"compute"});
  REQUIRE(made.plan.kernels.size() == 2);
  CHECK(made.plan.kernels[0].name == "fc");
  CHECK(made.plan.weights[0].storage.text() == "1/16 0 1%16");
  CHECK(made.plan.weights[1].storage.is_row_major());
  check_runs(kMlp, "", 1);
}

TEST_CASE("a weight with a matrix for each of the batch has panels for each") {
  const Planned made = plan_of(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[3,4,8] x) => (float[3,4,9] y) <float[3,8,9] w = random(1, 0.5)> { y = MatMul(x, w) })");
  CHECK(strategy_text(made.plan.kernels[0].strategy) == "packed-product panels 16");
  CHECK(made.plan.weights[0].storage.text() == "0 2/16 1 2%16");
  CHECK(made.plan.weights[0].bytes == 3 * 8 * 16 * 4);
}

TEST_CASE("a chunk reads the panels of some matrices, but no part of a panel's matrix") {
  const auto strategy = [](int dim) {
    const Planned made = plan_of(
        R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4,6,8] x) => (float[4,6,32] y) <float[4,8,32] w = random(1, 0.5)> { [fc] h = MatMul(x, w) [act] y = Relu(h) })",
        "weft: 1\nmesh: {tp: 2}\nshard: {w: {tp: 1}}\ntransform:\n  - overlap: {ops: [fc, fc.sum], chunks: 2, dim: " +
            std::to_string(dim) + "}\n");
    return std::string(strategy_name(made.plan.kernels[0].strategy));
  };
  CHECK(strategy(0) == "packed-product");
  CHECK(strategy(1) == "packed-product");
  CHECK(strategy(2) == "strided-product");
}

TEST_CASE("running sums are scans, on a device by blocks where lines are few and long") {
  const auto strategy = [](const std::string& shape, const Target& target) {
    const auto made = prepare("<ir_version: 8, opset_import: [\"\" : 20]>\nm (float" + shape + " x) => (float" + shape +
                                  " y)\n<int64 axis = {1}> {\n  s = CumSum(x, axis)\n  y = Exp(s)\n}\n",
                              "", "", target);
    REQUIRE(made->ok());
    const std::optional<Plan> plan = make_plan(*made->module, target, made->diags);
    REQUIRE(plan);
    return strategy_text(plan->kernels[0].strategy);
  };
  CHECK(strategy("[4,4096]", Target{}) == "scan");
  CHECK(strategy("[4,4096,3]", cuda_target({"sm_90"})) == "scan by block");
  CHECK(strategy("[4,100,3]", cuda_target({"sm_90"})) == "scan");
}

TEST_CASE("a device takes few elements of short lines by warps, others by blocks") {
  const auto strategy = [](const std::string& shape, int k, const Target& target) {
    const auto made = prepare("<ir_version: 8, opset_import: [\"\" : 20]>\nm (float" + shape +
                                  " x) => (float[N,K] y, int64[N,K] i)\n<int64[1] k = {" + std::to_string(k) +
                                  "}> { y, i = TopK(x, k) }\n",
                              "", "", target);
    REQUIRE(made->ok());
    const std::optional<Plan> plan = make_plan(*made->module, target, made->diags);
    REQUIRE(plan);
    return strategy_text(plan->kernels[0].strategy);
  };
  CHECK(strategy("[4,64]", 2, Target{}) == "top-k");
  CHECK(strategy("[4,64]", 2, cuda_target({"sm_90"})) == "top-k by warp");
  CHECK(strategy("[4,64]", 30, cuda_target({"sm_90"})) == "top-k by block");
  CHECK(strategy("[4,9000]", 2, cuda_target({"sm_90"})) == "top-k by block");
}

TEST_CASE("selections are kernels of their own") {
  const Planned made = plan_of(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4,6] x, float[1,5,4] boxes, float[1,2,5] scores) => (int64[2,n] at, int64[k,3] kept) <int64 most = {3}>
{ [where] at = NonZero(x)  [boxes] kept = NonMaxSuppression(boxes, scores, most) })");
  std::vector<std::string> strategies;
  for (const Kernel& kernel : made.plan.kernels) strategies.push_back(strategy_text(kernel.strategy));
  CHECK(std::count(strategies.begin(), strategies.end(), "selection") == 2);  // in both, which boxes there are
  CHECK(std::count(strategies.begin(), strategies.end(), "box-selection") == 1);
}

TEST_CASE("equal layers share a kernel, its name has no numbers") {
  const Planned made = plan_of(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4,8] x) => (float[4,8] y) <float[8,8] w0 = random(1, 0.5), float[8,8] w1 = random(2, 0.5)>
{ ["h.0.fc"] a = MatMul(x, w0)  ["h.1.fc"] y = MatMul(a, w1) })");
  REQUIRE(made.plan.kernels.size() == 1);
  CHECK(made.plan.kernels[0].name == "h_fc");
  CHECK(made.plan.kernels[0].users == std::vector<std::string>{"h.0.fc", "h.1.fc"});
  CHECK(made.plan.weights.size() == 2);
}

namespace {

/// A table that is looked up in, and the weight of a product.
std::string tied_model(int vocabulary, int ids) {
  const std::string v = std::to_string(vocabulary), n = std::to_string(ids);
  return "<ir_version: 8, opset_import: [\"\" : 20]>\nm (int64[" + n + "] ids) => (float[" + n + "," + v +
         "] y) <float[" + v + ",16] wte = random(1, 0.5)>\n" +
         "{ [embed] a = Gather(wte, ids)  [act] r = Tanh(a)  [turn] t = Transpose<perm = [1, 0]>(wte)  [out] y = "
         "MatMul(r, t) }";
}

/// "0/16 1 0%16, row-major": how the weights are stored.
std::string storages(const Plan& plan) {
  std::vector<std::string> texts;
  for (const Weight& weight : plan.weights) texts.push_back(weight.storage.text());
  return join(texts, ", ");
}

}  // namespace

TEST_CASE("a tied table is stored once, as the product wants it") {
  CHECK(storages(plan_of(tied_model(9000, 2)).plan) == "0/16 1 0%16");
  check_runs(tied_model(9000, 2), "", 1);
}

TEST_CASE("a tied table is stored twice where look-ups in panels would take long") {
  CHECK(storages(plan_of(tied_model(9, 4)).plan) == "row-major, 0/16 1 0%16");
}

TEST_CASE("a tied table is stored once where both read the same slices, else twice") {
  const std::string mesh = "weft: 1\nmesh: {tp: 2}\n";
  for (const std::string shard : {"shard: {wte: {tp: 0}}", "shard: {wte: {tp: 1}}"}) {
    CHECK(storages(plan_of(tied_model(9001, 1), mesh + shard).plan) == "0/16 1 0%16");
    check_runs(tied_model(9001, 1), mesh + shard, 1);
  }
  CHECK(storages(plan_of(tied_model(9001, 1), mesh + "shard: {t: {tp: 1}}").plan) == "row-major, 0/16 1 0%16");
}

TEST_CASE("a tied table is stored twice where another kernel reads all of it row-major") {
  std::string model = tied_model(9000, 2);
  model.replace(model.find("[out]"), 5, "[sum] z = Add(wte, u)  [out]");
  model.replace(model.find(" ids)"), 5, " ids, float[9000,16] u)");
  model.replace(model.find(" y)"), 3, " y, float[9000,16] z)");
  const Planned made = plan_of(model);
  INFO(print_plan(made.plan));
  CHECK(storages(made.plan) == "row-major, 0/16 1 0%16");
}

TEST_CASE("tables that one kernel looks up in lie alike") {
  std::string model = tied_model(9000, 2);
  model.replace(model.find("wte ="), 5, "other = random(2, 0.5), float[9000,16] wte =");
  model.replace(model.find("[turn]"), 6, "[embed_1] b = Gather(other, ids)  [act_1] q = Tanh(b)  [turn]");
  model.replace(model.find(" y)"), 3, " y, float[2,16] q)");
  const Planned made = plan_of(model);
  INFO(print_plan(made.plan));
  CHECK(made.plan.kernels.size() == 2);
  CHECK(storages(made.plan) == "row-major, row-major, 0/16 1 0%16");
}

TEST_CASE("schedules of an MLP run as one rank does") {
  check_runs(kMlp, kTp2);
  check_runs(kMlp, kTp2Fused);
  check_runs(kMlp, kTp2Overlap);
  check_runs(kMlp, kTp2Streams);
  check_runs(kMlp, kTwoStages);
}

TEST_CASE("an all-reduce works in place when nobody reads the partial sums") {
  const Planned made = plan_of(kMlp, kTp2);
  const std::string text = print_plan(made.plan);
  CHECK(count_kind(text, "AllReduce sum over tp") == 1);
  CHECK(text.find("window proj.sum") != std::string::npos);
  CHECK(made.plan.programs[0].window_bytes == 512);
}

TEST_CASE("chunks run on two streams, ordered by signals") {
  const Planned made = plan_of(kMlp, kTp2Streams);
  CHECK(made.plan.streams == std::vector<std::string>{"compute", "comm"});
  const std::string text = print_plan(made.plan);
  CHECK(count_kind(text, "[chunk] for data") == 1);
  CHECK(count_kind(text, "[chunk] - 2 for reuse") == 1);
}

TEST_CASE("branches and loops") {
  check_runs(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4] x, bool c) => (float[4] y)
{ y = If (c) <then_branch = t () => (float[4] a) { a = Relu(x) }, else_branch = e () => (float[4] b) { b = Neg(x) }> })",
             "", 1);
  check_runs(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4] x, float[4] z) => (float[4] y, float[4] u) <int64 n = {3}, bool yes = {1}>
{ y, u = Loop (n, yes, x, z) <body = b (int64 i, bool c, float[4] v, float[4] w) => (bool d, float[4] r, float[4] s)
  { d = Identity(c)  r = Add(w, x)  s = Mul(v, w) }> })",
             "", 1);
}

TEST_CASE("a loop that starts from constants") {
  check_runs(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4] x) => (float[4] y) <int64 n = {5}, bool yes = {1}, float[4] start = {1, 2, 3, 4}, float limit = {9}>
{ y = Loop (n, yes, start) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] r)
  { r = Add(v, v)  k = Constant <value = int64[1] {0}> ()  m = ReduceMax <keepdims = 0> (r, k)  d = Less(m, limit) }> })",
             "", 1);
}

TEST_CASE("results of a region that are one value have a buffer each") {
  check_runs(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4] x, bool c) => (float[4] y, float[4] z, float[2,2] u)
{ y, z, u = If (c) <
    then_branch = t () => (float[4] a, float[4] b, float[2,2] d) { a = Relu(x)  b = Identity(a)  s = Constant <value = int64[2] {2, 2}> ()  d = Reshape(a, s) },
    else_branch = e () => (float[4] a, float[4] b, float[2,2] d) { a = Neg(x)  b = Abs(a)  s = Constant <value = int64[2] {2, 2}> ()  d = Reshape(x, s) }> })",
             "", 1);
}

TEST_CASE("a loop that collects elements") {
  check_runs(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4] x) => (float[4] y, float[3,4] u) <int64 n = {3}, bool yes = {1}>
{ y, u = Loop (n, yes, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] r, float[4] s)
  { d = Identity(c)  r = Add(v, x)  s = Neg(r) }> })",
             "", 1);
}

TEST_CASE("a loop that collects elements until data ends it") {
  check_runs(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4] x) => (float[4] y, float[t,4] u) <int64 n = {5}, bool yes = {1}, float limit = {2}>
{ y, u = Loop (n, yes, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] r, float[4] s)
  { r = Add(v, x)  s = Neg(r)  k = Constant <value = int64[1] {0}> ()  m = ReduceMax <keepdims = 0> (r, k)
    d = Less(m, limit) }> })",
             "", 1);
}

TEST_CASE("what a loop of no trips collects has no length that only a run knows") {
  const Planned made = plan_of(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4] x, bool yes) => (float[4] y, float[t,4] u) <int64 n = {0}>
{ y, u = Loop (n, yes, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] r, float[4] s)
  { d = Identity(c)  r = Add(v, x)  s = Neg(r) }> })",
                               "weft: 1\n");
  CHECK(made.plan.lengths.empty());
  REQUIRE(made.plan.outputs.size() == 2);
  CHECK(made.plan.outputs[1].type.shape == shape_of({0, 4}));
}

TEST_CASE("a loop that collects elements and ends after its first trip is refused") {
  const auto made = prepare(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4] x) => (float[3,4] u) <int64 n = {3}, bool yes = {1}>
{ u = Loop (n, yes) <body = b (int64 i, bool c) => (bool d, float[4] s)
  { s = Neg(x)  d = Constant <value = bool {0}> () }> })",
                            "", "");
  CHECK_FALSE(made->ok());
  CHECK(made->diags.text().find("loop-scan-length-unsupported") != std::string::npos);
}

TEST_CASE("a state is updated in place if it was read before") {
  const std::string model = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4] x, float[4] s) => (float[4] y, float[4] t) <int64[1] zero = {0}>
{ a = Relu(s)  m = ReduceSum(a, zero)  y = Mul(x, m)  t = Tanh(y) })";
  const Planned made = plan_of(model, "weft: 1\nstate: {s: t}\n");
  REQUIRE(made.plan.states.size() == 1);
  check_proved(made.plan);
}

TEST_CASE("random graphs with random layouts: the Plan is proved and runs as the graph") {
  const char* wanted = std::getenv("WEFT_RANDOM_GRAPHS");
  const uint32_t graphs = wanted ? static_cast<uint32_t>(std::atoi(wanted)) : 150;
  uint32_t compared = 0;
  for (uint32_t seed = 1; seed <= graphs; ++seed) {
    CAPTURE(seed);
    Dice dice(seed);
    Scheduled made;
    made.module = RandomModel(dice, 3 + dice.roll(8)).take();
    if (seed % 3) made.schedule = random_schedule(dice, *made.module);
    run_pipeline(*made.module, {made.schedule, made.target, made.diags}, {}, made.report);
    if (!made.diags.ok()) continue;
    const std::optional<Plan> plan = make_plan(*made.module, made.target, made.diags);
    REQUIRE(plan);
    const std::vector<std::string> wrong = prove_plan(*plan);
    INFO(print_plan(*plan));
    for (const std::string& line : wrong) CHECK_MESSAGE(false, line);
    const EvalResult expected = evaluate(*made.module, seeded_inputs(*made.module));
    INFO(expected.error);
    REQUIRE(expected.error.empty());
    const PlanRun run = evaluate_plan(*plan, seeded_inputs(*made.module), seed);
    INFO(run.error);
    REQUIRE(run.error.empty());
    for (size_t i = 0; i < run.outputs.size(); ++i) REQUIRE(error_of(run.outputs[i], expected.outputs[i]) < 2e-5);
    ++compared;
  }
  CHECK(compared * 3 > graphs * 2);
}

TEST_CASE("random graphs with a random overlap: the Plan is proved and runs as the graph in several orders") {
  int compared = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    Dice dice(seed);
    Module model = RandomModel(dice, 4 + dice.roll(8)).take();
    const Schedule schedule = random_schedule(dice, model);
    const auto run = [&](const Schedule& with) {
      Dice again(seed);
      auto made = std::make_unique<Scheduled>();
      made->schedule = with;
      made->module = RandomModel(again, 4 + again.roll(8)).take();
      run_pipeline(*made->module, {made->schedule, made->target, made->diags}, {}, made->report);
      return made;
    };
    const auto plain = run(schedule);
    if (!plain->diags.ok()) continue;
    std::vector<std::string> sums;
    for (OpId id : plain->module->graph.order()) {
      const std::string& name = plain->module->graph.op(id).name;
      if (plain->module->graph.op(id).kind == OpKind::AllReduce && name.ends_with(".sum")) sums.push_back(name);
    }
    if (sums.empty()) continue;
    const std::string sum = dice.pick(sums);
    Schedule overlapped = schedule;
    const auto named = [](const std::string& name) { return Selector{Selector::Kind::Name, name, {}}; };
    overlapped.transforms.push_back(
        {OverlapStep{{named(sum.substr(0, sum.size() - 4)), named(sum)}, 2, dice.roll(2), {}}, {}});
    const auto made = run(overlapped);
    if (!made->diags.ok()) continue;
    const std::optional<Plan> plan = make_plan(*made->module, made->target, made->diags);
    REQUIRE(plan);
    INFO(print_plan(*plan));
    for (const std::string& line : prove_plan(*plan)) CHECK_MESSAGE(false, line);
    const EvalResult expected = evaluate(*made->module, seeded_inputs(*made->module));
    REQUIRE(expected.error.empty());
    for (uint32_t order = 0; order < 5; ++order) {
      const PlanRun ran = evaluate_plan(*plan, seeded_inputs(*made->module), order);
      INFO(ran.error);
      REQUIRE(ran.error.empty());
      for (size_t i = 0; i < ran.outputs.size(); ++i) REQUIRE(error_of(ran.outputs[i], expected.outputs[i]) < 2e-5);
    }
    ++compared;
  }
  MESSAGE("compared " << compared);
  CHECK(compared > 10);
}

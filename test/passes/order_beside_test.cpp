// Collectives that run whole beside other steps: where they begin, who waits for them, and that every order of the
// streams gives the same.
#include "ir/base/contains.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr const char* kBesideLayers = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4, 6] x, float[4, 6] target) => (float[4, 6] y)
<float[6, 8] w1 = random(1, 0.5), float[8, 8] w2 = random(2, 0.5), float[8, 6] w3 = random(3, 0.5)> {
  [fc1] h1 = MatMul(x, w1) [act1] a1 = Tanh(h1) [fc2] h2 = MatMul(a1, w2) [act2] a2 = Tanh(h2) [fc3] y = MatMul(a2, w3)
})";
constexpr const char* kBesideTraining =
    "train:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n  optimizer: {momentum: {rate: 0.1}}\n";
const std::string kBesideHalves = "weft: 1\nmesh: {dp: 2}\nshard: {x: {dp: 0}, target: {dp: 0}";

std::string schedule_of(const std::string& shard, const std::string& beside) {
  return kBesideHalves + shard + "}\ntransform:\n  - overlap: {ops: [" + beside + "]}\n" + kBesideTraining;
}

std::vector<const Step*> steps_of(const Plan& plan) {
  std::vector<const Step*> steps;
  for (const Block& block : plan.blocks)
    for (const Step& step : block.steps) steps.push_back(&step);
  return steps;
}

std::vector<std::string> names_on(const Plan& plan, const std::string& stream) {
  std::vector<std::string> names;
  for (const Step* step : steps_of(plan))
    if (plan.streams[static_cast<size_t>(step->stream)] == stream) names.push_back(step->name);
  return names;
}

/// The first step that waits for what this one raises.
std::string awaited_by(const Plan& plan, const std::string& name) {
  for (const Step* step : steps_of(plan)) {
    if (step->name != name) continue;
    for (const Raise& raise : step->raises)
      for (const Step* other : steps_of(plan))
        for (const Wait& wait : other->waits)
          if (wait.signal == raise.signal) return other->name;
  }
  return "";
}

/// The index of a step; past the end if it is missing.
size_t position_of(const Plan& plan, const std::string& name) {
  const std::vector<const Step*> steps = steps_of(plan);
  for (size_t s = 0; s < steps.size(); ++s)
    if (steps[s]->name == name) return s;
  FAIL("no step " << name);
  return steps.size();
}

/// All orders of the streams compute what the schedule without the overlap does.
Planned check_plan(const std::string& shard, const std::string& beside) {
  Planned made = plan_of(kBesideLayers, schedule_of(shard, beside));
  for (const std::string& line : prove_plan(made.plan)) CHECK_MESSAGE(false, line);
  const Planned plain = plan_of(kBesideLayers, kBesideHalves + shard + "}\n" + kBesideTraining);
  const std::vector<Tensor> inputs = port_inputs(made.plan);
  const PlanRun wanted = evaluate_plan(plain.plan, inputs, 0);
  REQUIRE(wanted.error == "");
  for (uint32_t seed = 0; seed < 10; ++seed) CHECK(same_outputs(evaluate_plan(made.plan, inputs, seed), wanted));
  return made;
}

}  // namespace

TEST_CASE("sums of gradients run while the way back goes on") {
  const Planned made = check_plan("", "\"*.grad.sum\"");
  const std::vector<std::string> sums = names_on(made.plan, "comm");
  REQUIRE(sums.size() == 3);
  CHECK(position_of(made.plan, sums[0]) + 1 < position_of(made.plan, sums[1]));
  for (const std::string& name : sums) {
    const std::string reader = awaited_by(made.plan, name);
    if (!reader.empty()) CHECK(position_of(made.plan, reader) > position_of(made.plan, sums.back()));
  }
  CHECK(awaited_by(made.plan, sums.back()) != "");
}

TEST_CASE("a parameter is gathered while the one before it is used") {
  const Planned made = check_plan(
      ", w1: {dp: 0}, w2: {dp: 0}, w3: {dp: 0}, w1.use: {dp: R}, w2.use: {dp: R}, w3.use: {dp: R}", "\"w*.gather\"");
  const std::vector<std::string> gathers = names_on(made.plan, "comm");
  REQUIRE(gathers.size() >= 3);
  CHECK(position_of(made.plan, gathers[1]) < position_of(made.plan, awaited_by(made.plan, gathers[0])));
  CHECK(position_of(made.plan, gathers[2]) >= position_of(made.plan, awaited_by(made.plan, gathers[0])) - 1);
}

TEST_CASE("what cannot run beside others") {
  const auto refusal = [](const std::string& transform) {
    return prepare(kBesideLayers, kBesideHalves + "}\ntransform:\n  - overlap: {" + transform + "}\n" + kBesideTraining,
                   "apply-transforms")
        ->diags.text();
  };
  CHECK(refusal("ops: [fc1]").find("[overlap-no-collective]") != std::string::npos);
  CHECK(refusal("ops: [fc1.grad.sum], dim: 0").find("[overlap-no-chunks]") != std::string::npos);
}

// It writes into its peers' memory, where what their collectives still read may lie until these are done.
TEST_CASE("a kernel that reaches into its peers' windows waits for the collectives beside of all of them") {
  constexpr const char* kModel = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[8, 8] x, float[8, 8] u) => (float[8, 8] h, float[8, 8] z) <float[8, 8] w = random(1, 0.5)> {
  [fc] h = MatMul(x, w) [act] k = Tanh(u) [scale] z = Mul(k, x)
})";
  const Planned made = plan_of(kModel,
                               "weft: 1\nmesh: {tp: 2}\nshard: {w: {tp: 0}, u: {tp: 0}, k.use: {tp: R}}\ntransform:\n"
                               "  - overlap: {ops: [fc, fc.sum], chunks: 2, dim: 0, mechanism: streams}\n"
                               "  - fuse: {ops: [act, act.gather], into: gathered}\n");
  for (const std::string& line : prove_plan(made.plan)) CHECK_MESSAGE(false, line);
  std::set<SignalId> of_comm;  // of all ranks
  const Step* kernel = nullptr;
  for_each_step(made.plan.blocks[0].steps, [&](const Step& step) {
    if (step.name == "gathered") kernel = &step;
    for (const Raise& raise : step.raises)
      if (made.plan.streams[static_cast<size_t>(step.stream)] == "comm" &&
          !made.plan.signals[raise.signal.index].axes.empty())
        of_comm.insert(raise.signal);
  });
  REQUIRE(kernel);
  CHECK(std::ranges::any_of(kernel->waits,
                            [&](const Wait& wait) { return wait.in_kernel && of_comm.contains(wait.signal); }));
}

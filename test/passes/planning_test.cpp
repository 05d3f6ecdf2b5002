// The steps of planning: each row is run, checked and printed, and a Plan that breaks a promise is named.
#include "passes/plan/planning.h"

#include <set>

#include "passes/pass.h"
#include "passes/plan/plan_checks.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

using Check = std::vector<std::string> (*)(const Plan&);

/// The check's message about the Plan after `spoil`; it has none before.
template <class Spoil>
std::string spoilt(Check check, const std::string& yaml, const Spoil& spoil) {
  Planned made = plan_of(kMlp, yaml);
  REQUIRE(check(made.plan).empty());
  spoil(made.plan);
  const std::vector<std::string> wrong = check(made.plan);
  return wrong.empty() ? "" : wrong[0];
}

Step& first_launch(Plan& plan) {
  for (Step& step : plan.blocks[0].steps)
    if (std::holds_alternative<LaunchStep>(step.what)) return step;
  return plan.blocks[0].steps[0];
}

}  // namespace

TEST_CASE("planning: names of passes and of steps are unique, so that a flag means one") {
  std::set<std::string> seen;
  for (const PlanningStep& step : planning()) CHECK_MESSAGE(seen.insert(step.name).second, step.name);
  for (const Pass& pass : pipeline()) CHECK_MESSAGE(seen.insert(pass.name).second, pass.name);
}

TEST_CASE("planning: each step is reported, and printed if asked for") {
  const auto made = prepare(kMlp, kTwoStages, "");
  REQUIRE(made->ok());
  std::vector<PlanningReport> reports;
  const auto plan = make_plan(*made->module, made->target, made->diags, {{"write-steps", "cut-phases"}}, reports);
  REQUIRE(plan);
  REQUIRE(reports.size() == planning().size());
  size_t steps = 0;
  for (const Block& block : plan->blocks) for_each_step(block.steps, [&](const Step&) { ++steps; });
  CHECK(steps > 2);
  CHECK(reports.front().name == "write-steps");
  CHECK(reports.back().name == "cut-phases");
  std::set<std::string> seen;
  for (const PlanningReport& report : reports) {
    CHECK_MESSAGE(seen.insert(report.name).second, report.name);
    CHECK(report.steps == steps);
    CHECK(report.printed.empty() == (report.name != "write-steps" && report.name != "cut-phases"));
  }
  CHECK(reports.front().printed.find("waits") == std::string::npos);
  CHECK(reports.front().printed.find("at 0 (start)") == std::string::npos);
  CHECK(reports.back().printed == print_plan(*plan));
  CHECK(reports.back().printed.find("waits") != std::string::npos);
}

TEST_CASE("planning: equal convolutions read and write images as each of them lies, the model's input and output too") {
  const Planned made = plan_of(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,16,10,10] x) => (float[1,16,10,10] y) <float[16,16,1,1] u = random(1, 0.5), float[16,16,1,1] v = random(2, 0.5),
  float[16,16,1,1] w = random(3, 0.5), float[16,16,1,1] t = random(4, 0.5)>
{ a = Conv(x, u) b = Conv(a, v) c = Conv(b, w) y = Conv(c, t) })");
  std::vector<std::string> kernels, images;
  for (const Step& step : made.plan.blocks[0].steps)
    kernels.push_back(made.plan.kernel(std::get<LaunchStep>(step.what).kernel).name);
  CHECK(kernels[1] == kernels[2]);
  CHECK(std::set<std::string>(kernels.begin(), kernels.end()).size() == 3);
  for (const Buffer& buffer : made.plan.buffers)
    if (buffer.storage.is_row_major()) images.push_back(buffer.name);
  CHECK(images == std::vector<std::string>{"x", "y"});
  check_orders(made, 4);
}

TEST_CASE("planning: the text shows strategies once they are chosen, and what is not stored row-major") {
  const auto made = prepare(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,16,10,10] x) => (float[1,16,6,6] y)
<float[16,16,3,3] u = random(1, 0.5), float[16,16,3,3] v = random(2, 0.5)>
{ [one] a = Conv(x, u)  [two] y = Conv(a, v) })",
                            "weft: 1\nkernels: {two: {strategy: direct-convolution}}\n", "");
  REQUIRE(made->ok());
  std::vector<PlanningReport> reports;
  const std::vector<std::string> steps = {"write-steps", "choose-kernels", "choose-storage", "place-weights"};
  REQUIRE(make_plan(*made->module, made->target, made->diags, {steps, made->schedule.kernels}, reports));
  const auto lines = [&](const std::string& step, const std::string& word) {
    std::vector<std::string> found;
    for (const PlanningReport& report : reports)
      if (report.name == step)
        for (const std::string& line : split(report.printed, '\n'))
          if (line.find(word) != std::string::npos) found.push_back(line);
    return join(found, "\n");
  };
  CHECK(lines("write-steps", "convolution") == "");
  CHECK(lines("choose-kernels", "convolution") ==
        "    by winograd-convolution F(4x4, 3x3), image transposed first\n"
        "    by direct-convolution, image transposed first, pinned (s.yaml:2:27)");
  CHECK(lines("choose-storage", "convolution") ==
        "    by winograd-convolution F(4x4, 3x3), image transposed first\n"
        "    by direct-convolution, pinned (s.yaml:2:27)");
  CHECK(lines("choose-kernels", "stored") == "");
  CHECK(lines("choose-storage", "stored") == "  a: f32[1, 16, 8, 8], 4096 bytes x 1, stored 0 2 3 1");
  CHECK(lines("place-weights", "stored") ==
        "  u: f32[16, 16, 3, 3], segment 0, at 0, 36864 bytes, stored 0/16 2 3 1 0%16 of F(4x4, 3x3)\n"
        "  v: f32[16, 16, 3, 3], segment 0, at 36864, 9216 bytes, stored 0/16 2 3 1 0%16\n"
        "  a: f32[1, 16, 8, 8], 4096 bytes x 1, stored 0 2 3 1");
}

TEST_CASE("planning: steps that do not fit their kernels") {
  CHECK(spoilt(check_steps, "", [](Plan& p) { std::get<LaunchStep>(first_launch(p).what).operands.pop_back(); }) ==
        "'fc' gives 3 operands to kernel 'fc', which has 4 parameters");
  CHECK(spoilt(check_steps, "", [](Plan& p) { first_launch(p).accesses[0].buffer = {99}; }) ==
        "'fc' touches a buffer that does not exist");
  CHECK(spoilt(check_steps, "", [](Plan& p) { p.outputs[0].buffer = {}; }) == "port 'residual' has no buffer");
  CHECK(spoilt(check_steps, kTwoStages, [](Plan& p) {
          std::erase_if(p.blocks[1].steps, [](const Step& s) { return std::holds_alternative<RecvStep>(s.what); });
        }).find("is sent 1 times and received 0 times") != std::string::npos);
}

TEST_CASE("planning: kernels and buffers agree on storage") {
  CHECK(spoilt(check_kernels, "", [](Plan& p) {
          p.buffers[0].storage = Storage::permuted({1, 0});
        }) == "'fc' takes 'x' as stored in another way");
}

TEST_CASE("planning: weights that overlap or leave their segment") {
  CHECK(spoilt(check_weights, "", [](Plan& p) { p.weights[1].offset = p.weights[0].offset; }) ==
        "weight 'fc_bias' lies at 0, the one before ends at 512");
  CHECK(spoilt(check_weights, "", [](Plan& p) { p.segments.back().end -= 1; }) ==
        "weight 'proj_bias' lies outside its segment");
  CHECK(spoilt(check_weights, "", [](Plan& p) { p.weights.pop_back(); }) ==
        "'proj' reads a weight that does not exist");
}

TEST_CASE("planning: waits for what nothing raises, streams that do not exist") {
  CHECK(spoilt(check_order, kTp2Overlap, [](Plan& p) {
          for (Block& block : p.blocks) for_each_step(block.steps, [](Step& s) { s.raises.clear(); });
        }).find("waits for what nothing raises") != std::string::npos);
  CHECK(spoilt(check_order, "", [](Plan& p) { p.blocks[0].steps[0].stream = 1; }) ==
        "'fc' runs on a stream that does not exist");
}

TEST_CASE("planning: buffers without a place in memory") {
  CHECK(spoilt(check_positions, "", [](Plan& p) { p.programs[0].positions.clear(); }).find("has no position") !=
        std::string::npos);
  CHECK(spoilt(check_positions, "", [](Plan& p) { p.programs[0].own_bytes = 256; }).find("ends after the 256 bytes") !=
        std::string::npos);
}

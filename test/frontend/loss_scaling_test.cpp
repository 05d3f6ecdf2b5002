// Trainings whose products round to 16 bits scale their loss: what a step leaves where gradients are finite, and where
// one is not.
#include <limits>

#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr double kOverflow = std::numeric_limits<double>::infinity();
constexpr const char* kProduct = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[2] x) => (float loss) <float[2] w = {8, -8}> { p = Mul(w, x) loss = ReduceSum<keepdims = 0>(p) })";

using Outputs = std::map<std::string, std::vector<double>>;

std::unique_ptr<Scheduled> rounded_training(const std::string& more, const std::string& precision) {
  return prepare(kProduct, "weft: 1\n" + precision + "train:\n  loss: loss\n" + more, "decompose");
}

/// Outputs by name of one invocation for each `x`, which is the derivative by w.
std::vector<Outputs> scaled_steps(const std::vector<std::vector<double>>& xs, const std::string& more,
                                  double good = 0) {
  const auto made = rounded_training(more, "precision: fp16\n");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  const Module& module = *made->module;
  std::vector<std::vector<Tensor>> inputs;
  for (const std::vector<double>& x : xs) {
    std::vector<Tensor>& values = inputs.emplace_back();
    for (const ValueId v : module.graph.inputs()) {
      Tensor& value = values.emplace_back(module.graph.type(v).dtype, module.graph.type(v).dims());
      const std::string& name = module.graph.value(v).name;
      if (name == "x") value.real = x;
      if (name == "w" || name == "w.average") value.real = {8, -8};
      if (name == "train.loss_scale") value.real = {65536};
      if (name == "train.good_steps") value.real = {good};
    }
  }
  std::vector<Outputs> all;
  for (const EvalResult& result : evaluate_invocations(module, inputs)) {
    REQUIRE(result.error.empty());
    Outputs& values = all.emplace_back();
    for (size_t o = 0; o < result.outputs.size(); ++o)
      for (int64_t i = 0; i < result.outputs[o].size(); ++i)
        values[module.graph.outputs()[o].name].push_back(result.outputs[o].at(i));
  }
  return all;
}

}  // namespace

TEST_CASE("a step whose gradients are not finite changes nothing but the scale, which is halved") {
  const auto steps = scaled_steps({{1, 2}, {kOverflow, 1}, {1, std::nan("")}, {2, 1}},
                                  "  optimizer: {momentum: {rate: 1, momentum: 0.5}}\n  average: {decay: 0.5}\n");
  CHECK(steps[0].at("w.next") == std::vector<double>{7, -10});
  CHECK(steps[0].at("skipped") == std::vector<double>{0});
  for (const size_t i : {1, 2}) {
    for (const char* name : {"w.next", "w.velocity.next", "w.average.next", "train.step.next"})
      CHECK(steps[i].at(name) == steps[0].at(name));
    CHECK(steps[i].at("skipped") == std::vector<double>{1});
  }
  const std::vector<double> scales{65536, 65536, 32768, 16384};
  for (size_t i = 0; i < steps.size(); ++i) CHECK(steps[i].at("loss_scale")[0] == scales[i]);
  CHECK(steps[3].at("w.velocity.next") == std::vector<double>{2.5, 2});
  CHECK(steps[3].at("train.step.next") == std::vector<double>{2});
}

TEST_CASE("the scale is doubled after 2000 good steps") {
  const auto steps = scaled_steps({{1, 2}, {1, 2}, {1, 2}}, "  optimizer: {sgd: {rate: 1}}\n", 1998);
  CHECK(steps[0].at("train.loss_scale.next") == std::vector<double>{65536});
  CHECK(steps[1].at("train.loss_scale.next") == std::vector<double>{131072});
  CHECK(steps[1].at("train.good_steps.next") == std::vector<double>{0});
  CHECK(steps[2].at("loss_scale") == std::vector<double>{131072});
  CHECK(steps[2].at("w.next") == std::vector<double>{5, -14});
}

TEST_CASE("clipping is of the gradients by the loss itself") {
  const auto steps = scaled_steps({{3, 4}}, "  optimizer: {sgd: {rate: 1}}\n  clip: {norm: 1}\n");
  CHECK(steps[0].at("grad_norm")[0] == doctest::Approx(5));
  CHECK(steps[0].at("w.next")[0] == doctest::Approx(8 - 0.6));
}

TEST_CASE("only what rounds to fp16 scales its loss, and the mistakes of a training are told as before") {
  for (const char* precision : {"", "precision: bf16\n"}) {
    const auto made = rounded_training("  optimizer: {sgd: {rate: 1}}\n", precision);
    REQUIRE(made->ok());
    CHECK(made->module->training->updates.empty());
    CHECK_FALSE(made->module->graph.find_value("train.loss_scale"));
  }
  const auto cut = prepare(R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[2] x) => (float loss) <float[2] w = {8, -8}> { r = Round(w) p = Mul(r, x) loss = ReduceSum<keepdims = 0>(p) })",
                           "weft: 1\nprecision: fp16\ntrain: {loss: loss, optimizer: {sgd: {rate: 1}}}\n", "decompose");
  REQUIRE(cut->diags.all().size() == 1);
  CHECK(cut->diags.all()[0].id == "train-no-path");
  const auto named =
      rounded_training("  optimizer: {sgd: {rate: 1}}\n  metrics: {skipped: loss}\n", "precision: fp16\n");
  CHECK_FALSE(named->ok());
}

// Each optimizer and each rate, step by step, against its formula.
#include <cmath>
#include <functional>

#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// Outputs of one invocation by name.
using Values = std::map<std::string, std::vector<double>>;

/// The derivative of the loss by w is x, which is 0.5 and -2.
std::vector<Values> steps_of(const std::string& settings, int count) {
  const auto made = prepare(R"(<ir_version: 10, opset_import: ["" : 20]>
m (double[2] x) => (double loss) <double[2] w = {1, -3}> { p = Mul(w, x) loss = ReduceSum<keepdims = 0>(p) })",
                            "weft: 1\ntrain:\n  loss: loss\n" + settings, "decompose");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  const Module& module = *made->module;
  std::vector<Tensor> inputs;
  for (const ValueId v : module.graph.inputs()) {
    Tensor first(module.graph.type(v).dtype, module.graph.type(v).dims());
    if (module.graph.value(v).name == "x") first.real = {0.5, -2};
    if (module.graph.value(v).name == "w") first.real = {1, -3};
    inputs.push_back(std::move(first));
  }
  std::vector<Values> all;
  for (const EvalResult& result : evaluate_invocations(module, std::vector(static_cast<size_t>(count), inputs))) {
    REQUIRE(result.error.empty());
    Values& values = all.emplace_back();
    for (size_t o = 0; o < result.outputs.size(); ++o)
      for (int64_t i = 0; i < result.outputs[o].size(); ++i)
        values[module.graph.outputs()[o].name].push_back(result.outputs[o].at(i));
  }
  return all;
}

/// What an optimizer has of one element, of which g is the derivative; `t` counts steps from 1.
struct Element {
  double w, g, m = 0, v = 0;
};
using Update = std::function<void(Element& e, int t)>;

void check(const std::string& optimizer, const Update& update) {
  CAPTURE(optimizer);
  constexpr int kSteps = 4;
  const std::vector<Values> found = steps_of("  optimizer: {" + optimizer + "}\n", kSteps);
  Element elements[] = {{1, 0.5}, {-3, -2}};
  for (int t = 1; t <= kSteps; ++t)
    for (size_t i = 0; i < 2; ++i) {
      update(elements[i], t);
      CHECK(found[static_cast<size_t>(t - 1)].at("w.next")[i] == doctest::Approx(elements[i].w).epsilon(1e-6));
    }
}

/// m and v without their start at 0, as a direction.
double adam_direction(Element& e, double g, int t, double beta1, double beta2, double epsilon) {
  e.m = beta1 * e.m + (1 - beta1) * g;
  e.v = beta2 * e.v + (1 - beta2) * g * g;
  return e.m / (1 - std::pow(beta1, t)) / (std::sqrt(e.v / (1 - std::pow(beta2, t))) + epsilon);
}

void check_rates(const std::string& rate, const std::vector<double>& wanted) {
  CAPTURE(rate);
  const std::vector<Values> found =
      steps_of("  optimizer: {sgd: {rate: 2}}\n  rate: {" + rate + "}\n", static_cast<int>(wanted.size()));
  for (size_t t = 0; t < wanted.size(); ++t)
    CHECK(found[t].at("train.rate")[0] == doctest::Approx(wanted[t]).epsilon(1e-6));
}

}  // namespace

TEST_CASE("optimizers take the steps of their formulas") {
  check("sgd: {rate: 0.1, weight_decay: 0.2}", [](Element& e, int) { e.w -= 0.1 * (e.g + 0.2 * e.w); });
  check("momentum: {rate: 0.1, momentum: 0.8, weight_decay: 0.2}", [](Element& e, int) {
    e.m = 0.8 * e.m + e.g + 0.2 * e.w;
    e.w -= 0.1 * e.m;
  });
  check("momentum: {rate: 0.1, momentum: 0.8, nesterov: 1}", [](Element& e, int) {
    e.m = 0.8 * e.m + e.g;
    e.w -= 0.1 * (e.g + 0.8 * e.m);
  });
  check("adam: {rate: 0.1, betas: [0.8, 0.9], weight_decay: 0.2, epsilon: 1e-3}",
        [](Element& e, int t) { e.w -= 0.1 * adam_direction(e, e.g + 0.2 * e.w, t, 0.8, 0.9, 1e-3); });
  check("adamw: {rate: 0.1, betas: [0.8, 0.9], weight_decay: 0.2, epsilon: 1e-3}", [](Element& e, int t) {
    const double direction = adam_direction(e, e.g, t, 0.8, 0.9, 1e-3);
    e.w = e.w * (1 - 0.1 * 0.2) - 0.1 * direction;
  });
  check("lion: {rate: 0.1, betas: [0.8, 0.9], weight_decay: 0.2}", [](Element& e, int) {
    const double mean = 0.8 * e.m + 0.2 * e.g;
    e.w = e.w * (1 - 0.1 * 0.2) - 0.1 * ((mean > 0) - (mean < 0));
    e.m = 0.9 * e.m + 0.1 * e.g;
  });
}

TEST_CASE("lamb scales a tensor's step to the length of the tensor") {
  const std::vector<Values> found =
      steps_of("  optimizer: {lamb: {rate: 0.1, betas: [0.8, 0.9], weight_decay: 0.2, epsilon: 1e-3}}\n", 3);
  Element elements[] = {{1, 0.5}, {-3, -2}};
  for (int t = 1; t <= 3; ++t) {
    double whole[2];
    for (size_t i = 0; i < 2; ++i)
      whole[i] = adam_direction(elements[i], elements[i].g, t, 0.8, 0.9, 1e-3) + 0.2 * elements[i].w;
    const double ratio = std::hypot(elements[0].w, elements[1].w) / std::hypot(whole[0], whole[1]);
    for (size_t i = 0; i < 2; ++i) {
      elements[i].w -= 0.1 * ratio * whole[i];
      CHECK(found[static_cast<size_t>(t - 1)].at("w.next")[i] == doctest::Approx(elements[i].w).epsilon(1e-6));
    }
  }
}

TEST_CASE("rates warm up and decay") {
  check_rates("warmup: 4", {0.5, 1, 1.5, 2, 2});
  check_rates("decay: linear, warmup: 2, steps: 6, final: 0.2", {1, 2, 1.6, 1.2, 0.8, 0.4, 0.4});
  const double quarter = 0.5 - 0.5 * std::cos(std::acos(-1.0) * 0.75);
  check_rates("decay: cosine, steps: 4, final: 0.2",
              {2 * (0.2 + 0.8 * quarter), 1.2, 2 * (0.2 + 0.8 * (1 - quarter)), 0.4, 0.4});
  check_rates("decay: wsd, steps: 8, tail: 0.5",
              {2, 2, 2, 2, 1, 2 * (1 - std::sqrt(0.5)), 2 * (1 - std::sqrt(0.75)), 0});
  check_rates("decay: wsd, steps: 2, tail: 0", {2, 0, 0});
}

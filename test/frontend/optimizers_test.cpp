// Each optimizer and each rate, step by step, against its formula.
#include <cmath>
#include <functional>

#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// Outputs of one invocation by name.
using Values = std::map<std::string, std::vector<double>>;

/// A parameter and its derivative, which is the same in each step.
struct Case {
  std::string dims;  // "2"
  std::vector<double> w, g;
};
const Case kVector{"2", {1, -3}, {0.5, -2}};

std::vector<Values> steps_of(const std::string& settings, int count, const Case& of = kVector) {
  std::vector<std::string> first_w;
  for (const double w : of.w) first_w.push_back(shortest(w));
  const std::string type = "double[" + of.dims + "] ";
  const auto made =
      prepare("<ir_version: 10, opset_import: [\"\" : 20]> m (" + type + "x) => (double loss) <" + type + "w = {" +
                  join(first_w, ", ") + "}> { p = Mul(w, x) loss = ReduceSum<keepdims = 0>(p) }",
              "weft: 1\ntrain:\n  loss: loss\n" + settings, "decompose");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  const Module& module = *made->module;
  std::vector<Tensor> inputs;
  for (const ValueId v : module.graph.inputs()) {
    Tensor first(module.graph.type(v).dtype, module.graph.type(v).dims());
    if (module.graph.value(v).name == "x") first.real = of.g;
    if (module.graph.value(v).name == "w") first.real = of.w;
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

/// An optimizer's data for one element with gradient g; `t` counts steps from 1.
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

TEST_CASE("what is left of 1 after a factor near it has 64 bits") {
  check("adam: {rate: 0.1, betas: [0.999999, 0.9999999]}",
        [](Element& e, int t) { e.w -= 0.1 * adam_direction(e, e.g, t, 0.999999, 0.9999999, 1e-8); });
  const double part = 1e-6, rest = 1 - 1e-7;
  Element of_lion{1, 0.5}, of_decay{1, 0.5}, of_mean{1, 0.5};
  const std::vector<Values> lion = steps_of("  optimizer: {lion: {rate: 0.1, betas: [0.9, 0.999999]}}\n", 3);
  const std::vector<Values> decayed =
      steps_of("  optimizer: {adamw: {rate: 1e-5, betas: [0.9, 0.999], weight_decay: 0.01}}\n", 3);
  const std::vector<Values> averaged = steps_of("  optimizer: {sgd: {rate: 0.1}}\n  average: {decay: 0.999999}\n", 3);
  for (size_t t = 0; t < 3; ++t) {
    of_lion.m = (1 - part) * of_lion.m + part * of_lion.g;
    CHECK(lion[t].at("w.m.next")[0] == doctest::Approx(of_lion.m).epsilon(1e-6));
    const double before = of_decay.w,
                 direction = adam_direction(of_decay, of_decay.g, static_cast<int>(t) + 1, 0.9, 0.999, 1e-8);
    of_decay.w = before * rest - 1e-5 * direction;
    CHECK(decayed[t].at("w.next")[0] == doctest::Approx(of_decay.w).epsilon(1e-11));
    of_mean.w -= 0.1 * of_mean.g;
    of_mean.m += part * (of_mean.w - of_mean.m);  // begins at 0 here
    CHECK(averaged[t].at("w.average.next")[0] == doctest::Approx(of_mean.m).epsilon(1e-6));
  }
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

namespace {

/// Adafactor as PyTorch has it, of rows x columns; a vector is one of no rows.
struct Adafactor {
  double rate = 0.01, decay = 0, beta2_decay = -0.8, epsilon1 = 1.1920929e-7, epsilon2 = 1e-3, d = 1;
  size_t rows = 0, columns = 0;
  std::vector<double> row = {}, column = {}, variance = {};

  void step(std::vector<double>& w, const std::vector<double>& g, int t) {
    const double part = std::pow(t, beta2_decay);
    const double size = std::max(epsilon2, root_mean_square(w));
    std::vector<double> update = estimate(g, part);
    for (size_t i = 0; i < w.size(); ++i) update[i] = g[i] / std::sqrt(std::max(update[i], epsilon1 * epsilon1));
    const double far = size * std::min(rate, 1 / std::sqrt(t)) / std::max(1.0, root_mean_square(update) / d);
    for (size_t i = 0; i < w.size(); ++i) w[i] = w[i] * (1 - rate * decay) - far * update[i];
  }

 private:
  static double root_mean_square(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum / static_cast<double>(values.size()));
  }
  std::vector<double> estimate(const std::vector<double>& g, double part) {
    variance.resize(g.size(), 0), row.resize(rows, 0), column.resize(columns, 0);
    if (rows == 0) {
      for (size_t i = 0; i < g.size(); ++i) variance[i] += part * (g[i] * g[i] - variance[i]);
      return variance;
    }
    std::vector<double> of_row(rows, 0), of_column(columns, 0);
    for (size_t i = 0; i < g.size(); ++i) {
      of_row[i / columns] += g[i] * g[i] / static_cast<double>(columns);
      of_column[i % columns] += g[i] * g[i] / static_cast<double>(rows);
    }
    double mean = 0;
    for (size_t r = 0; r < rows; ++r) row[r] += part * (of_row[r] - row[r]), mean += row[r] / static_cast<double>(rows);
    for (size_t c = 0; c < columns; ++c) column[c] += part * (of_column[c] - column[c]);
    std::vector<double> found;
    for (size_t i = 0; i < g.size(); ++i)
      found.push_back(row[i / columns] * column[i % columns] / std::max(mean, epsilon1));
    return found;
  }
};

void check_adafactor(const std::string& attributes, Adafactor wanted, const Case& of) {
  CAPTURE(of.dims);
  const std::vector<Values> found = steps_of("  optimizer: {adafactor: {" + attributes + "}}\n", 4, of);
  std::vector<double> w = of.w;
  for (int t = 1; t <= 4; ++t) {
    wanted.step(w, of.g, t);
    for (size_t i = 0; i < w.size(); ++i)
      CHECK(found[static_cast<size_t>(t - 1)].at("w.next")[i] == doctest::Approx(w[i]).epsilon(1e-6));
  }
}

}  // namespace

TEST_CASE("adafactor keeps a number for each row and each column of a matrix, and one for each of a vector") {
  const Case matrix{"2, 3", {1, -3, 0.5, 2, 0.25, -1}, {0.5, -2, 1, 0.125, 3, -0.75}};
  check_adafactor("rate: 0.1", {.rate = 0.1}, kVector);
  check_adafactor("rate: 0.1, weight_decay: 0.2, d: 0.5, beta2_decay: -0.5, epsilons: [1e-4, 2]",
                  {.rate = 0.1, .decay = 0.2, .beta2_decay = -0.5, .epsilon1 = 1e-4, .epsilon2 = 2, .d = 0.5}, kVector);
  check_adafactor("rate: 2", {.rate = 2, .rows = 2, .columns = 3}, matrix);
  check_adafactor("rate: 0.1, weight_decay: 0.2, d: 0.5, epsilons: [1.5, 2]",
                  {.rate = 0.1, .decay = 0.2, .epsilon1 = 1.5, .epsilon2 = 2, .d = 0.5, .rows = 2, .columns = 3},
                  matrix);
  // With more dimensions the last two are rows and columns; here there is one matrix.
  for (const char* dims : {"1, 2, 3", "1, 1, 2, 3", "1, 1, 1, 2, 3"})
    check_adafactor("rate: 0.1", {.rate = 0.1, .rows = 2, .columns = 3}, {dims, matrix.w, matrix.g});
  const std::vector<Values> found = steps_of("  optimizer: {adafactor: {rate: 0.1}}\n", 1, matrix);
  CHECK(found[0].at("w.row.next").size() == 2);
  CHECK(found[0].at("w.column.next").size() == 3);
  CHECK(steps_of("  optimizer: {adafactor: {rate: 0.1}}\n", 1)[0].at("w.variance.next").size() == 2);
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

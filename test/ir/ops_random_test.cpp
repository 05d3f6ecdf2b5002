// Random draws: their distributions, and that a node's draws are its own.
#include <doctest/doctest.h>

#include <cmath>

#include "ops_test.h"

namespace weftc {

namespace {

/// The result of a decomposed random op without operands.
Tensor drawn(OpKind kind, const Attrs& attrs) { return decomposed(kind, {}, attrs); }

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double moment(const std::vector<double>& values, double mean, int power) {
  double sum = 0;
  for (const double value : values) sum += std::pow(value - mean, power);
  return sum / static_cast<double>(values.size());
}

constexpr int64_t kCount = 40000;
const Attrs kShape{{"shape", std::vector<int64_t>{kCount}}, {"dtype", dtype_attr(DType::F32)}};

}  // namespace

TEST_CASE("normal draws have the moments of a normal distribution") {
  Attrs attrs = kShape;
  attrs.push_back({"mean", 3.0});
  attrs.push_back({"scale", 2.0});
  const std::vector<double> x = drawn(OpKind::RandomNormal, attrs).real;
  CHECK(std::fabs(mean_of(x) - 3) < 0.03);
  CHECK(std::fabs(moment(x, 3, 2) - 4) < 0.08);
  CHECK(std::fabs(moment(x, 3, 3)) < 0.4);
  CHECK(std::fabs(moment(x, 3, 4) - 48) < 2);
  double correlation = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i) correlation += (x[i] - 3) * (x[i + 1] - 3) / 4;
  CHECK(std::fabs(correlation / kCount) < 0.02);
}

TEST_CASE("draws of two nodes differ, those of one node do not depend on the kind of its result") {
  const auto node = [](int64_t number, OpKind kind, Attrs attrs) {
    attrs.push_back({"node", number});
    return decomposed(kind, {Tensor(DType::F32, {50})}, attrs);
  };
  const Tensor first = node(1, OpKind::RandomUniformLike, {});
  CHECK(relative_error(first, node(1, OpKind::RandomUniformLike, {})) == 0);
  CHECK(relative_error(first, node(2, OpKind::RandomUniformLike, {})) > 0.1);
  const Tensor wider = node(1, OpKind::RandomUniformLike, {{"low", -1.0}, {"high", 3.0}});
  for (int64_t i = 0; i < 50; ++i) CHECK(wider.real[i] == doctest::Approx(4 * first.real[i] - 1));
}

TEST_CASE("Bernoulli draws 1 as often as its operand says") {
  Tensor p(DType::F32, {kCount});
  for (int64_t i = 0; i < kCount; ++i) p.real[i] = i < kCount / 2 ? 0.25 : 1;
  const Tensor hits = decomposed(OpKind::Bernoulli, {p}, {{"dtype", dtype_attr(DType::I32)}});
  CHECK(hits.dtype == DType::I32);
  int64_t low = 0, high = 0;
  for (int64_t i = 0; i < kCount; ++i) (i < kCount / 2 ? low : high) += hits.integers[i];
  CHECK(std::fabs(static_cast<double>(low) / (kCount / 2) - 0.25) < 0.01);
  CHECK(high == kCount / 2);
}

TEST_CASE("Multinomial draws classes by their weights, never one of weight 0") {
  const double none = -std::numeric_limits<double>::infinity();
  const Tensor weights = reals({2, 4}, {std::log(1), none, std::log(3), none, none, 0, none, 0});
  const Tensor classes = decomposed(OpKind::Multinomial, {weights}, {{"sample_size", kCount}});
  int64_t counts[2][4] = {};
  for (int64_t i = 0; i < 2 * kCount; ++i) ++counts[i / kCount][classes.integers[i]];
  CHECK(counts[0][0] + counts[0][2] == kCount);
  CHECK(std::fabs(static_cast<double>(counts[0][2]) / kCount - 0.75) < 0.01);
  CHECK(counts[1][1] + counts[1][3] == kCount);
  CHECK(std::fabs(static_cast<double>(counts[1][1]) / kCount - 0.5) < 0.01);
}

TEST_CASE("random ops refuse what they cannot draw") {
  const auto refusal = [](OpKind kind, const Tensor& x, const Attrs& attrs) {
    OneOp one;
    CHECK(!one.add(kind, {one.input(x)}, attrs));
    return one.diags.all()[0].id;
  };
  const Tensor numbers = ints({3}, {1, 2, 3}), table = reals({2, 2}, {1, 2, 3, 4});
  CHECK(refusal(OpKind::RandomNormalLike, numbers, {}) == "random-dtype");
  CHECK(refusal(OpKind::Bernoulli, numbers, {}) == "operand-not-float");
  CHECK(refusal(OpKind::Multinomial, table, {{"dtype", dtype_attr(DType::F32)}}) == "random-dtype");
  CHECK(refusal(OpKind::Multinomial, table, {{"sample_size", int64_t{0}}}) == "multinomial-count");
}

}  // namespace weftc

// Operators of ONNX Runtime's training graphs on small cases, computed by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "ops_test.h"

using namespace weftc;

namespace {

struct Case {
  OpKind kind;
  std::vector<Tensor> inputs;
  Attrs attrs;
  std::vector<Tensor> expected;
};

void check(const Case& c) {
  OneOp one;
  std::vector<ValueId> operands;
  for (const Tensor& tensor : c.inputs) operands.push_back(one.input(tensor));
  CAPTURE(op_def(c.kind).name);
  REQUIRE(one.add(c.kind, operands, c.attrs, static_cast<int>(c.expected.size())));
  REQUIRE(one.decompose());
  const std::vector<Tensor> found = one.run();
  for (size_t i = 0; i < found.size(); ++i) {
    REQUIRE(found[i].dims == c.expected[i].dims);
    if (found[i].is_real()) CHECK(relative_error(found[i], c.expected[i]) < 1e-6);  // constants are rounded to f32
    if (!found[i].is_real()) CHECK(found[i].integers == c.expected[i].integers);
  }
}

Tensor flag(bool value) { return ints({1}, {value}, DType::Bool); }

/// The message that refuses the op.
std::string refusal(OpKind kind, const std::vector<Tensor>& inputs, const Attrs& attrs) {
  OneOp one;
  std::vector<ValueId> operands;
  for (const Tensor& tensor : inputs) operands.push_back(one.input(tensor));
  CHECK(!one.add(kind, operands, attrs));
  return one.diags.text();
}

}  // namespace

TEST_CASE("training: derivatives as nodes are those of the rules") {
  const Tensor g = reals({1, 2, 2}, {1, 0, 0, 0}), y = reals({1, 2, 2}, {0.1, 0.2, 0.3, 0.4});
  check({OpKind::ReluGrad, {reals({3}, {1, 2, 3}), reals({3}, {0, 4, 0.5})}, {}, {reals({3}, {0, 2, 3})}});
  check({OpKind::SoftmaxGrad, {g, y}, {{"axis", int64_t{1}}}, {reals({1, 2, 2}, {0.09, -0.02, -0.03, -0.04})}});
  check({OpKind::SoftmaxGrad_13, {g, y}, {{"axis", int64_t{2}}}, {reals({1, 2, 2}, {0.09, -0.02, 0, 0})}});
  const double p1 = std::exp(0.1), p2 = std::exp(0.2), p3 = std::exp(0.3), p4 = std::exp(0.4);
  check({OpKind::LogSoftmaxGrad, {g, y}, {{"axis", int64_t{1}}}, {reals({1, 2, 2}, {1 - p1, -p2, -p3, -p4})}});
  check({OpKind::LogSoftmaxGrad_13, {g, y}, {{"axis", int64_t{1}}}, {reals({1, 2, 2}, {1 - p1, 0, -p3, 0})}});
  check({OpKind::GeluGrad, {reals({2}, {2, 1}), reals({2}, {0, 1})}, {}, {reals({2}, {1, 1.0833154705876865})}});
}

TEST_CASE("training: the derivative of a cross-entropy by its scores") {
  const Tensor log_probability = reals({2, 2}, {std::log(0.25), std::log(0.75), std::log(0.5), std::log(0.5)});
  const Tensor labels = ints({2}, {1, 0}), g = reals({}, {2}), weights = reals({2}, {1, 3});
  const OpKind kind = OpKind::SoftmaxCrossEntropyLossGrad;
  check({kind, {g, log_probability, labels}, {}, {reals({2, 2}, {0.25, -0.25, -0.5, 0.5})}});
  check({kind, {g, log_probability, labels}, {{"ignore_index", int64_t{0}}}, {reals({2, 2}, {0.5, -0.5, 0, 0})}});
  check({kind,
         {g, log_probability, labels, weights},
         {{"reduction", std::string("sum")}},
         {reals({2, 2}, {1.5, -1.5, -1, 1})}});
  check({kind,
         {reals({2}, {1, 2}), log_probability, labels},
         {{"reduction", std::string("none")}},
         {reals({2, 2}, {0.25, -0.25, -1, 1})}});
  CHECK(refusal(kind, {g, log_probability, labels}, {{"reduction", std::string("none")}}).find("derivative-operand") !=
        std::string::npos);
}

TEST_CASE("training: the derivatives of a norm by operand, scale and bias") {
  const Tensor x = reals({2, 2}, {1, 3, 1, 3}), g = reals({2, 2}, {1, 0, 1, 0}), scale = reals({2}, {2, 1});
  const Tensor mean = reals({2, 1}, {2, 2}), inverse = reals({2, 1}, {0.5, 0.5});
  check({OpKind::LayerNormalizationGrad,
         {g, x, scale, mean, inverse},
         {},
         {reals({2, 2}, {0.375, -0.375, 0.375, -0.375}), reals({2}, {-1, 0}), reals({2}, {2, 0})}});
}

TEST_CASE("training: a buffer of gradients is added to, or written over") {
  const Tensor buffer = reals({2}, {1, 2}), value = reals({2}, {10, 20});
  check({OpKind::InPlaceAccumulatorV2, {buffer, value}, {}, {flag(true), reals({2}, {11, 22})}});
  check({OpKind::InPlaceAccumulatorV2, {buffer, value, flag(false)}, {}, {flag(true), reals({2}, {11, 22})}});
  check({OpKind::InPlaceAccumulatorV2, {buffer, value, flag(true)}, {}, {flag(true), value}});
  CHECK(refusal(OpKind::InPlaceAccumulatorV2, {buffer, reals({1}, {1})}, {}).find("accumulator-dims") !=
        std::string::npos);
  CHECK(refusal(OpKind::InPlaceAccumulatorV2, {buffer, value, buffer}, {}).find("accumulator-flag") !=
        std::string::npos);
}

TEST_CASE("training: steps of optimizers") {
  const Tensor rate = reals({}, {0.1}), step = ints({}, {2}), w = reals({1}, {1}), g = reals({1}, {0.5});
  const Tensor m = reals({1}, {0.1}), v = reals({1}, {0.04}), no = ints({}, {0}, DType::Bool);
  check({OpKind::SGDStep, {rate, w, g}, {}, {reals({1}, {0.95})}});
  check({OpKind::SGDStep, {rate, w, g, no}, {}, {w}});
  const auto adamw = [](int64_t mode, int64_t is_corrected) {
    return Attrs{{"adam_mode", mode}, {"alpha", 0.9},       {"beta", 0.99}, {"correct_bias", is_corrected},
                 {"epsilon", 1e-3},   {"weight_decay", 0.2}};
  };
  const Tensor next_m = reals({1}, {0.14}), next_v = reals({1}, {0.0421});
  const std::vector<Tensor> operands{rate, step, w, g, m, v};
  check({OpKind::AdamWStep, operands, adamw(0, 1), {reals({1}, {0.9293754190456236}), next_m, next_v}});
  check({OpKind::AdamWStep, operands, adamw(1, 1), {reals({1}, {0.9305945885908959}), next_m, next_v}});
  check({OpKind::AdamWStep, operands, adamw(1, 0), {reals({1}, {0.9134571216101253}), next_m, next_v}});
  check({OpKind::AdamWStep, {rate, step, w, g, m, v, no}, adamw(0, 1), {w, m, v}});
  CHECK(refusal(OpKind::AdamWStep, operands, adamw(2, 1)).find("attribute-choice") != std::string::npos);
  CHECK(refusal(OpKind::SGDStep, {rate, w, g, rate}, {}).find("optimizer-signal") != std::string::npos);
  CHECK(refusal(OpKind::SGDStep, {rate, w, reals({2}, {1, 1})}, {}).find("optimizer-step-dims") != std::string::npos);
}

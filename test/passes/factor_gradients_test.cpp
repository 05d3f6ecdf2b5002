// The derivative of an activation is one factor: the step is that of the formula, and less waits in memory.
#include "test/passes/planned.h"
#include "test/passes/same_step.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// Two linear layers around an activation of `h`, whose nodes give `a`.
std::string network(const std::string& activation) {
  return "<ir_version: 10, opset_import: [\"\" : 20]> m (float[6,4] x) => (float loss) <float[4,8] w = random(1, 0.5), "
         "float[8,4] v = random(2, 0.5), float one = {1}, float two = {2}> { h = MatMul(x, w) " +
         activation + " y = MatMul(a, v) square = Mul(y, y) loss = ReduceSum<keepdims = 0>(square) }";
}

const std::string kDescent = "weft: 1\ntrain:\n  loss: loss\n  optimizer: {sgd: {rate: 0.01}}\n";

/// The op that makes the gradient of h, after the pass.
OpKind maker(const std::string& activation) {
  const auto made = prepare(network(activation), kDescent, "factor-gradients");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  const Graph& graph = made->module->graph;
  return graph.producer_op(graph.find_value("h.grad")).kind;
}

}  // namespace

TEST_CASE("factor-gradients: a step has the values of the formula") {
  for (const char* activation :
       {"a = Gelu(h)", "a = Gelu<approximate = \"tanh\">(h)", "s = Sigmoid(h) a = Mul(h, s)", "a = Mish(h)",
        "a = HardSwish(h)", "a = Softplus(h)", "t = Tanh(h) e = Exp(t) q = Div(t, e) a = Mul(q, h)",
        "e = Erf(h) f = Mul(e, two) n = Neg(f) a = Sub(n, h)",
        "s = Sigmoid(h) p = Mul(h, s) q = Mul(p, p) a = Add(q, h)"}) {
    CAPTURE(activation);
    check_same_step(network(activation), kDescent, "factor-gradients");
    check_orders(plan_of(network(activation), kDescent), 2);
  }
}

TEST_CASE("factor-gradients: a long chain of activations has several factors") {
  std::string chain = "c0 = Gelu(h)";
  for (int i = 1; i < 30; ++i) chain += " c" + std::to_string(i) + " = Gelu(c" + std::to_string(i - 1) + ")";
  check_same_step(network(chain + " a = Gelu(c29)"), kDescent, "factor-gradients");
  const auto made = prepare(network(chain + " a = Gelu(c29)"), kDescent, "factor-gradients");
  REQUIRE(made->ok());
  const std::vector<std::string>& remarks = made->module->remarks;
  const auto is_count = [](const std::string& remark) { return remark.starts_with("factor-gradients: "); };
  const auto count = std::ranges::find_if(remarks, is_count);
  REQUIRE(count != remarks.end());
  CHECK(std::stoi(count->substr(18)) > 1);
}

TEST_CASE("factor-gradients: the gradient before an activation is one product of two values") {
  for (const char* activation :
       {"a = Gelu(h)", "a = Gelu<approximate = \"tanh\">(h)", "s = Sigmoid(h) a = Mul(h, s)", "a = Mish(h)"})
    CHECK_MESSAGE(maker(activation) == OpKind::Mul, activation);
}

TEST_CASE("factor-gradients: less of a training waits for the backward pass") {
  const Planned made = plan_of(network("a = Gelu(h)"), kDescent);
  int stored = 0;
  for (const Kernel& kernel : made.plan.kernels)
    for (const Parameter& parameter : kernel.parameters)
      stored += parameter.name.find("factor") != std::string::npos || parameter.name.find("Exp") != std::string::npos;
  CHECK(stored == 2);  // one kernel writes the factor, one reads it
}

// Which initialisers a `train:` section of a schedule takes for parameters.
#include <doctest/doctest.h>

#include <set>

#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// The names of the states that a step of SGD on y has.
std::set<std::string> states_of(const std::string& initializers, const std::string& body) {
  const std::string model = "<ir_version: 10, opset_import: [\"\" : 18]>\nm (float[1, 2, 4, 4] x) => (float y) <" +
                            initializers + "> {" + body + " y = ReduceMean<keepdims = 0>(z) }";
  const std::string train = "weft: 1\ntrain: {loss: y, mode: eval, optimizer: {sgd: {rate: 0.1}}}";
  const auto made = prepare(model, train, "decompose");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  std::set<std::string> names;
  for (const State& state : made->module->states) names.insert(state.input);
  return names;
}

}  // namespace

TEST_CASE("operands that say how, not what, are computed are no parameters") {
  CHECK(states_of("float[1, 2, 1, 1] w = {1, 2}, float[4] scales = {1, 1, 2, 2}, float[1] s = {0.5}",
                  "a = Mul(x, w) z = Resize(a, , scales)") == std::set<std::string>{"train.step", "w"});
  CHECK(states_of("float[2] w = {1, 2}, float[2] b = {0, 1}, float[2] mean = {3, 4}, float[2] variance = {1, 2}",
                  "z = BatchNormalization(x, w, b, mean, variance)") == std::set<std::string>{"b", "train.step", "w"});
}

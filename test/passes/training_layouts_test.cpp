// Layouts of a training step: the loss and the next parameters are those of one rank, and each plan of memory has the
// collectives that it is known for.
#include <map>

#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr const char* kTwoLayers = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4, 6] x, float[4, 6] target) => (float[4, 6] y)
<float[6, 8] w1 = random(1, 0.5), float[8] b1 = random(2, 0.5), float[8, 6] w2 = random(3, 0.5)> {
  [norm] n = Tanh(x) [fc1] h1 = MatMul(n, w1) [bias1] h2 = Add(h1, b1) [act] h = Gelu(h2) [fc2] y = MatMul(h, w2)
})";
constexpr const char* kTrained =
    "train:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n  optimizer: {momentum: {rate: 0.1}}\n";

std::string split_training(const std::string& mesh, const std::string& shard) {
  return "weft: 1\nmesh: {" + mesh + "}\nshard: {" + shard + "}\n" + kTrained;
}

/// How many collectives of each kind there are.
std::map<std::string, int> collectives_of(const Module& module) {
  std::map<std::string, int> found;
  for (const OpId id : module.graph.order())
    if (const Op& op = module.graph.op(id); category(op) == Category::Collective && op.kind != OpKind::ShardSlice)
      ++found[op_def(op).name];
  return found;
}

/// The step on one rank and under the schedule; gives the collectives.
std::map<std::string, int> check_step(const std::string& mesh, const std::string& shard) {
  CAPTURE(shard);
  const auto alone = prepare(kTwoLayers, std::string("weft: 1\n") + kTrained, "apply-layouts");
  const auto split = prepare(kTwoLayers, split_training(mesh, shard), "apply-layouts");
  REQUIRE_MESSAGE(alone->ok(), alone->diags.text());
  REQUIRE_MESSAGE(split->ok(), split->diags.text());
  const std::vector<Tensor> inputs = seeded_inputs(*alone->module);
  const EvalResult one = evaluate(*alone->module, inputs), several = evaluate(*split->module, inputs);
  REQUIRE(one.error.empty());
  REQUIRE(several.error.empty());
  for (size_t o = 0; o < one.outputs.size(); ++o)
    for (int64_t i = 0; i < one.outputs[o].size(); ++i)
      CHECK(several.outputs[o].at(i) == doctest::Approx(one.outputs[o].at(i)).epsilon(1e-4));
  return collectives_of(*split->module);
}

}  // namespace

TEST_CASE("data parallel: one sum for each parameter, and one for the loss") {
  CHECK(check_step("dp: 2", "x: {dp: 0}, target: {dp: 0}") == std::map<std::string, int>{{"AllReduce", 4}});
}

TEST_CASE("states of an optimizer that are sliced: gradients are scattered, parameters gathered") {
  CHECK(check_step("dp: 2", R"(x: {dp: 0}, target: {dp: 0}, "*.velocity": {dp: 0})") ==
        std::map<std::string, int>{{"AllReduce", 1}, {"ReduceScatter", 3}, {"AllGather", 3}});
}

TEST_CASE("parameters that are sliced: gathered to be read, their gradients scattered") {
  CHECK(check_step("dp: 2",
                   "x: {dp: 0}, target: {dp: 0}, \"w{i}\": {dp: 0}, \"w{i}.use\": {dp: R}, b1: {dp: 0}, "
                   "b1.use: {dp: R}") ==
        std::map<std::string, int>{{"AllReduce", 1}, {"ReduceScatter", 3}, {"AllGather", 3}});
}

TEST_CASE("tensor parallel: a sum forward; none backward, where nothing before the layer is trained") {
  CHECK(check_step("tp: 2", "w1: {tp: 1}, b1: {tp: 0}, w2: {tp: 0}") == std::map<std::string, int>{{"AllReduce", 1}});
}

TEST_CASE("sequence parallel: slices of rows between the layers; a product goes back by the slices it had") {
  CHECK(check_step("tp: 2",
                   "x: {tp: 0}, target: {tp: 0}, n.use: {tp: R}, y: {tp: 0}, w1: {tp: 1}, b1: {tp: 0}, w2: {tp: 0}") ==
        std::map<std::string, int>{{"AllReduce", 1}, {"AllGather", 2}, {"ReduceScatter", 1}});
}

TEST_CASE("both at once") {
  CHECK(check_step("dp: 2, tp: 2", "x: {dp: 0}, target: {dp: 0}, w1: {tp: 1}, b1: {tp: 0}, w2: {tp: 0}") ==
        std::map<std::string, int>{{"AllReduce", 5}});
}

TEST_CASE("what an optimizer keeps lies as its parameter does") {
  const auto made =
      prepare(kTwoLayers, split_training("tp: 2", "w1: {tp: 1}, b1: {tp: 0}, w2: {tp: 0}"), "apply-layouts");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  const Graph& graph = made->module->graph;
  for (const State& state : made->module->states)
    if (!state.of.empty())
      CHECK(graph.type(graph.find_value(state.input)).layout == graph.type(graph.find_value(state.of)).layout);
}

TEST_CASE("slices of a dimension by an axis, of another one by the value that a derivative is by, are not mixed") {
  check_step("a: 2, b: 2", "w2.use: {a: 0, b: 1}");
  check_step("a: 2, b: 2", "h.use: {a: 1, b: 0}, n.use: {a: 0, b: 1}");
}

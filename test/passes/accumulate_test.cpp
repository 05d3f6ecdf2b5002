// accumulate: the step equals the whole batch's, and everything not linear in the gradients runs once afterwards.
#include "test/passes/classifier.h"
#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr const char* kAccumulatedLoss = "  loss: {cross_entropy: {scores: y, labels: labels, ignore: 0}}\n";

std::string training(const std::string& rest, const std::string& optimizer = "momentum: {rate: 0.1}") {
  return "weft: 1\n" + rest + "train:\n" + kAccumulatedLoss + "  optimizer: {" + optimizer + "}\n  clip: {norm: 0.1}\n";
}

const Op& chunk_of(const Module& module) {
  for (const OpId id : module.graph.order())
    if (module.graph.op(id).kind == OpKind::Chunk) return module.graph.op(id);
  FAIL("there is no Chunk");
  return module.graph.op(module.graph.first());
}

int count(const Graph& graph, OpKind kind) {
  int found = 0;
  for (const OpId id : graph.order()) found += graph.op(id).kind == kind;
  return found;
}

/// The step as a whole on one rank, and in four micro-batches under the schedule; gives the latter.
std::unique_ptr<Scheduled> check_step(const std::string& rest, const std::string& optimizer = "momentum: {rate: 0.1}") {
  CAPTURE(rest);
  const auto whole = prepare(kClassifier, training("", optimizer), "apply-transforms");
  auto parts = prepare(kClassifier, training(rest, optimizer) + "  accumulate: 4\n", "apply-transforms");
  REQUIRE_MESSAGE(whole->ok(), whole->diags.text());
  REQUIRE_MESSAGE(parts->ok(), parts->diags.text());
  const EvalResult one = evaluate(*whole->module, seeded_inputs(*whole->module));
  const EvalResult several = evaluate(*parts->module, seeded_inputs(*parts->module));
  REQUIRE(one.error.empty());
  REQUIRE(several.error.empty());
  for (size_t o = 0; o < one.outputs.size(); ++o)
    for (int64_t i = 0; i < one.outputs[o].size(); ++i)
      CHECK(several.outputs[o].at(i) == doctest::Approx(one.outputs[o].at(i)).epsilon(1e-4));
  return parts;
}

std::string refusal(const std::string& model, const std::string& schedule) {
  return prepare(model, schedule, "apply-transforms")->diags.text();
}

}  // namespace

TEST_CASE("forward and backward run in micro-batches, the optimizer once") {
  const auto made = check_step("");
  const Graph& body = chunk_of(*made->module).regions[0];
  CHECK(count(body, OpKind::MatMul) == 5);  // two forward; by both weights and by h
  CHECK(count(body, OpKind::Sqrt) == 0);
  CHECK(count(made->module->graph, OpKind::MatMul) == 0);
}

TEST_CASE("an optimizer that is linear in its gradients runs once, too") {
  const auto made = check_step("", "sgd: {rate: 0.1}");
  for (const auto& output : made->module->graph.outputs())
    CHECK(made->module->graph.producer_op(output.value).kind != OpKind::Chunk);
}

TEST_CASE("gradients are summed over ranks once, after the micro-batches") {
  const auto made = check_step("mesh: {dp: 2}\nshard: {x: {dp: 0}, labels: {dp: 0}}\n");
  CHECK(count(chunk_of(*made->module).regions[0], OpKind::AllReduce) == 0);
  CHECK(count(made->module->graph, OpKind::AllReduce) >= 4);
}

TEST_CASE("activations are summed over ranks in each micro-batch") {
  const auto made = check_step("mesh: {tp: 2}\nshard: {w1: {tp: 1}, b1: {tp: 0}, w2: {tp: 0}}\n");
  CHECK(count(chunk_of(*made->module).regions[0], OpKind::AllReduce) == 1);
}

TEST_CASE("a loss whose derivative is a constant spread over the batch, and an input without the batch") {
  constexpr const char* kMixed = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[8, 4] x, float[4] mix, float[8, 4] target) => (float[8, 4] y) <float[4, 4] w = random(1, 0.5)> {
  [mixed] h = Mul(x, mix) [fc] y = MatMul(h, w)
})";
  const std::string train =
      "weft: 1\ntrain:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n  optimizer: {sgd: {rate: "
      "1}}\n";
  const auto whole = prepare(kMixed, train, "apply-transforms");
  const auto parts = prepare(kMixed, train + "  accumulate: 4\n", "apply-transforms");
  REQUIRE_MESSAGE(parts->ok(), parts->diags.text());
  CHECK(count(chunk_of(*parts->module).regions[0], OpKind::MatMul) == 2);
  const EvalResult one = evaluate(*whole->module, seeded_inputs(*whole->module));
  const EvalResult several = evaluate(*parts->module, seeded_inputs(*parts->module));
  REQUIRE(several.error.empty());
  for (size_t o = 0; o < one.outputs.size(); ++o)
    for (int64_t i = 0; i < one.outputs[o].size(); ++i)
      CHECK(several.outputs[o].at(i) == doctest::Approx(one.outputs[o].at(i)).epsilon(1e-4));
}

TEST_CASE("slices of parameters are gathered in each micro-batch") {
  check_step("mesh: {dp: 2}\nshard: {x: {dp: 0}, labels: {dp: 0}, \"w{i}\": {dp: 0}, \"w{i}.use\": {dp: R}}\n");
}

TEST_CASE("micro-batches that do not divide the batch, and ops that read all of it, are refused") {
  CHECK(refusal(kClassifier, training("") + "  accumulate: 3\n").find("[micro-batches-indivisible]") !=
        std::string::npos);
  constexpr const char* kContrast = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[8, 6] x) => (float[8, 8] y) <float[6, 6] w = random(1, 0.5)> {
  [fc] h = MatMul(x, w) [turned] t = Transpose <perm = [1, 0]> (h) [pairs] y = MatMul(h, t) [sum] loss = ReduceMean <keepdims = 0> (y)
})";
  const std::string found =
      refusal(kContrast, "weft: 1\ntrain: {loss: loss, optimizer: {sgd: {rate: 1}}, accumulate: 4}\n");
  CHECK_MESSAGE(found.find("[micro-batches-reshard]") != std::string::npos, found);
  CHECK_MESSAGE(found.find("'pairs'") != std::string::npos, found);
}

TEST_CASE("of a model of which nothing can run in micro-batches, the reason is said") {
  constexpr const char* kJoined = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4, 3, 8] x, float[8, 8] u) => (float loss) <float[8, 8] w = random(1, 0.5), int64[2] rows = {-1, 8}> {
  [flat] f = Reshape(x, rows) [fc] h = MatMul(f, w) [more] y = MatMul(h, u) [sum] loss = ReduceSum <keepdims = 0> (y)
})";
  const std::string found = refusal(
      kJoined,
      "weft: 1\nplaces: {p: {ranks: [0, 1, 2], mesh: {dp: 3}}, q: {ranks: [1], mesh: {}}}\nshard: {x: {dp: 0}}\n"
      "pipeline: {stages: {a: {place: p, nodes: flat}, b: {place: q, nodes: fc}, c: {place: p, nodes: rest}}, "
      "micro_batches: 2, order: gpipe}\ntrain: {loss: loss, optimizer: {sgd: {rate: 1}}}\n");
  CHECK_MESSAGE(found.find("[micro-batches-reshard]") != std::string::npos, found);
}

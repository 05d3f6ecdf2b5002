// `mode: train` and `mode: eval`: what becomes of BatchNormalization and Dropout, and which models are refused.
#include "frontend/training_mode.h"

#include <set>

#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

const std::string kVectors =
    "float[3] w = {1, 2, 3}, float[3] b = {0, 1, 2}, float[3] mean = {0.5, 0, 1}, float[3] variance = {1, 2, 4}";
const std::string kNormalize = "[bn] n = BatchNormalization <momentum = 0.75> (x, w, b, mean, variance) ";
const std::string kDrop =
    "ratio = Constant <value_float = 0.25> () off = Constant <value = bool {0}> () "
    "[drop] d = Dropout (x, ratio, off) ";

std::string model_of(const std::string& body, const std::string& initializers = kVectors, int opset = 20,
                     const std::string& functions = "") {
  return "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) +
         ", \"mine\" : 1]> m (float[4, 3, 5] x) => (float loss) <" + initializers + "> { " + body + " } " + functions;
}

std::string mean_of(const char* value) { return std::string("loss = ReduceMean <keepdims = 0> (") + value + ")"; }

std::unique_ptr<Scheduled> trained(const std::string& model, const std::string& mode, const std::string& more = "",
                                   const std::string& stop_after = "infer-types") {
  const std::string entry = mode.empty() ? "" : ", mode: " + mode;
  return prepare(model, "weft: 1\ntrain: {loss: loss, optimizer: {sgd: {rate: 0.1}}" + entry + "}\n" + more,
                 stop_after);
}

std::set<std::string> states_of(const Scheduled& made) {
  REQUIRE_MESSAGE(made.ok(), made.diags.text());
  std::set<std::string> names;
  for (const State& state : made.module->states) names.insert(state.input);
  return names;
}

std::string ids_of(const Scheduled& made) {
  std::string ids;
  for (const Diagnostic& each : made.diags.all()) ids += (ids.empty() ? "" : " ") + each.id;
  return ids;
}

Tensor output_of(const Module& module, const std::vector<Tensor>& outputs, const std::string& name) {
  const auto at = std::ranges::find_if(module.graph.outputs(), [&](const auto& out) { return out.name == name; });
  REQUIRE(at != module.graph.outputs().end());
  return outputs[static_cast<size_t>(at - module.graph.outputs().begin())];
}

const std::set<std::string> kWithStatistics{"b", "mean", "train.step", "variance", "w"};
const std::set<std::string> kWithout{"b", "train.step", "w"};

}  // namespace

TEST_CASE("running statistics are states with mode train") {
  const std::string model = model_of(kNormalize + mean_of("n"));
  const auto made = trained(model, "train");
  CHECK(states_of(*made) == kWithStatistics);
  const auto mean = std::ranges::find_if(made->module->states, [](const State& s) { return s.input == "mean"; });
  CHECK(mean->output == "mean.next");
  CHECK(made->module->constants[mean->initial].name == "mean");
  CHECK(ids_of(*made).empty());
  CHECK(states_of(*trained(model, "eval")) == kWithout);
}

TEST_CASE("a file in the form for inference is pointed at, unless the schedule says the mode") {
  const std::string model = model_of(kNormalize + mean_of("n"));
  const auto made = trained(model, "");
  CHECK(states_of(*made) == kWithStatistics);
  CHECK(ids_of(*made) == "train-eval-export");
  CHECK(ids_of(*trained(model_of(kDrop + "n = BatchNormalization(d, w, b, mean, variance) " + mean_of("n")), "")) ==
        "");
  const std::string as_trained =
      "n, m, v = BatchNormalization <training_mode = 1> (x, w, b, mean, variance) " + mean_of("n");
  const auto exported = trained(model_of(as_trained), "");
  CHECK(ids_of(*exported) == "");
  CHECK(states_of(*exported) == kWithStatistics);
}

TEST_CASE("old opsets, functions, and initializers after an Identity") {
  for (const int opset : {6, 9, 13, 15}) {
    CAPTURE(opset);
    const std::string test_form = opset == 6 ? "<is_test = 1>" : "";
    CHECK(states_of(*trained(model_of("n = BatchNormalization" + test_form + "(x, w, b, mean, variance) " +
                                          "loss = ReduceMean <keepdims = 0> (n)",
                                      kVectors, opset),
                             "train")) == kWithStatistics);
  }
  const std::string function =
      "<domain: \"mine\", opset_import: [\"\" : 20]> block (x, w, b, m, v) => (y) "
      "{ y = BatchNormalization (x, w, b, m, v) }";
  CHECK(states_of(*trained(model_of("n = mine.block(x, w, b, mean, variance) " + mean_of("n"), kVectors, 20, function),
                           "train")) == kWithStatistics);
  CHECK(states_of(*trained(model_of("c = Identity(mean) k = Identity(c) "
                                    "n = BatchNormalization(x, w, b, k, variance) " +
                                    mean_of("n")),
                           "train")) == kWithStatistics);
}

TEST_CASE("statistics that cannot follow the batches are refused") {
  const std::string twice =
      kNormalize + "k = BatchNormalization(n, w, b, mean, variance) loss = ReduceMean <keepdims = 0> (k)";
  CHECK(ids_of(*trained(model_of(twice), "train")) ==
        "train-statistics-shared-unsupported train-statistics-shared-unsupported");
  const std::string shared = "n = BatchNormalization (x, w, b, b, variance) ";
  CHECK(ids_of(*trained(model_of(shared + mean_of("n")), "train")) == "train-statistics-read-unsupported");
  CHECK(ids_of(*trained(model_of(shared + mean_of("n")), "eval")).empty());
  CHECK(ids_of(*trained(model_of(twice), "eval")) == "");
  const std::string computed = "s = Abs(mean) n = BatchNormalization(x, w, b, s, variance) " + mean_of("n");
  CHECK(ids_of(*trained(model_of(computed), "train")) == "train-statistics-computed-unsupported");
  const std::string inside =
      "yes = Constant <value = bool {1}> () "
      "n = If (yes) <then_branch = t () => (float[4, 3, 5] p) { p = BatchNormalization(x, w, b, mean, variance) }, "
      "else_branch = e () => (float[4, 3, 5] q) { q = Identity(x) }> " +
      mean_of("n");
  CHECK(ids_of(*trained(model_of(inside), "train")) == "train-statistics-subgraph-unsupported");
}

TEST_CASE("a step moves the statistics to those of the batch, as ONNX says") {
  const auto made = trained(model_of(kNormalize + mean_of("n")), "train", "", "decompose");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  const std::vector<Tensor> inputs = seeded_inputs(*made->module);
  const EvalResult step = evaluate(*made->module, inputs);
  REQUIRE_MESSAGE(step.error.empty(), step.error);
  const auto input_of = [&](const std::string& name) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (made->module->graph.value(made->module->graph.inputs()[i]).name == name) return inputs[i];
    FAIL("no input " << name);
    return inputs[0];
  };
  const Tensor x = input_of("x"), mean = input_of("mean"), variance = input_of("variance");
  const Tensor next_mean = output_of(*made->module, step.outputs, "mean.next");
  const Tensor next_variance = output_of(*made->module, step.outputs, "variance.next");
  for (int64_t c = 0; c < 3; ++c) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < 20; ++i) {
      const double value = x.at(i / 5 * 15 + c * 5 + i % 5);
      sum += value, squares += value * value;
    }
    const double own = squares / 20 - sum / 20 * sum / 20;
    CHECK(next_mean.at(c) == doctest::Approx(0.75 * mean.at(c) + 0.25 * sum / 20));
    CHECK(next_variance.at(c) == doctest::Approx(0.75 * variance.at(c) + 0.25 * own));
  }
}

TEST_CASE("batches that are sliced have the statistics of all") {
  const std::string model = model_of(
      "[scaled] s = Mul(x, w2) [bn] n = BatchNormalization(s, w, b, mean, variance) q = Mul(n, n) "
      "r = Mul(q, n) " +
          mean_of("r"),
      kVectors + ", float[1, 3, 5] w2 = random(1, 1.0)");
  const auto one = trained(model, "train", "", "decompose");
  const auto two = trained(model, "train", "mesh: {dp: 2}\nshard: {x: {dp: 0}}\n", "");
  REQUIRE_MESSAGE(one->ok(), one->diags.text());
  REQUIRE_MESSAGE(two->ok(), two->diags.text());
  // Mean and variance, the loss; the derivatives by w2, and by w and b, which are all that goes back through the rest.
  CHECK(collectives_text(*two->module) == "AllReduce 6");
  const std::vector<Tensor> inputs = seeded_inputs(*one->module);
  const EvalResult a = evaluate(*one->module, inputs), b = evaluate(*two->module, inputs);
  REQUIRE(a.error.empty());
  REQUIRE(b.error.empty());
  for (size_t i = 0; i < a.outputs.size(); ++i)
    CHECK_MESSAGE(relative_error(b.outputs[i], a.outputs[i]) < 2e-5, one->module->graph.outputs()[i].name);
}

TEST_CASE("Dropout draws with mode train, whatever its operand says, and does not with a ratio of 0") {
  const auto draws = [](const std::string& body, const std::string& mode, int opset) {
    const auto made = trained(model_of(body, "float[4, 3, 5] w = random(1, 1.0)", opset), mode, "", "decompose");
    REQUIRE_MESSAGE(made->ok(), made->diags.text());
    return count_ops(made->module->graph, OpKind::RandomUniform);
  };
  const std::string weighted = "y = Mul(d, w) loss = ReduceMean <keepdims = 0> (y)";
  CHECK(draws(kDrop + weighted, "train", 20) > 0);
  CHECK(draws(kDrop + weighted, "eval", 20) == 0);
  CHECK(draws("d = Dropout(x) " + weighted, "train", 20) > 0);
  CHECK(draws("d = Dropout <ratio = 0.5> (x) " + weighted, "train", 9) > 0);
  CHECK(draws("d = Dropout <is_test = 1> (x) " + weighted, "train", 6) > 0);
  CHECK(draws("none = Constant <value_float = 0.0> () d = Dropout(x, none) " + weighted, "train", 20) == 0);
}

TEST_CASE("what Dropout drops is another part in each step, and the same on every number of ranks") {
  const std::string model =
      "<ir_version: 8, opset_import: [\"\" : 20]> m (float[16, 32] x) => (float loss) "
      "<float[16, 32] w = random(1, 1.0)> { y = Mul(x, w) ratio = Constant <value_float = 0.25> () "
      "d = Dropout(y, ratio) loss = ReduceSum <keepdims = 0> (d) }";
  const auto one = trained(model, "train", "", "decompose");
  const auto two = trained(model, "train", "mesh: {dp: 2, tp: 2}\nshard: {x: {dp: 0, tp: 1}}\n", "");
  REQUIRE_MESSAGE(one->ok(), one->diags.text());
  REQUIRE_MESSAGE(two->ok(), two->diags.text());
  std::vector<Tensor> inputs = seeded_inputs(*one->module);
  const auto kept = [&](const Scheduled& made, int64_t step) {
    const EvalResult result = evaluate(*made.module, inputs, {.invocation = step, .observe = {}});
    REQUIRE_MESSAGE(result.error.empty(), result.error);
    return output_of(*made.module, result.outputs, "w.next");
  };
  const Tensor first = kept(*one, 0), again = kept(*two, 0), second = kept(*one, 1);
  CHECK(relative_error(again, first) < 1e-6);
  CHECK(relative_error(second, first) > 1e-3);
  // The derivative of an element that is dropped is 0, so that its weight stays.
  const auto w = std::ranges::find_if(one->module->graph.inputs(),
                                      [&](ValueId v) { return one->module->graph.value(v).name == "w"; });
  const Tensor& before = inputs[static_cast<size_t>(w - one->module->graph.inputs().begin())];
  int stays = 0;
  for (int64_t i = 0; i < before.size(); ++i) stays += before.at(i) == first.at(i);
  CHECK(stays / 512.0 == doctest::Approx(0.25).epsilon(0.25));
}

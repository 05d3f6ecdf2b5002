// The training step that `train:` makes of a model, and every error in the entry.
#include "frontend/training_step.h"

#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr const char* kPerceptron = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4, 3] x) => (float[4, 2] scores)
<float[3, 5] w1 = random(1, 0.5), float[5] b1 = random(2, 0.5), float[5, 2] w2 = random(3, 0.5), float val_1 = {0.5},
 int64[1] unused = {1}, float[2] apart = {1, 2}> {
  [fc1] h1 = MatMul(x, w1) [bias1] h2 = Add(h1, b1) [act] h = Tanh(h2) [fc2] wide = MatMul(h, w2)
  [scaled] scores = Mul(wide, val_1)
})";

std::string training_of(const std::string& train) { return "weft: 1\ntrain:\n" + train; }

const std::string kLoss =
    "  inputs: {labels: \"int64[4]\"}\n  loss: {cross_entropy: {scores: scores, labels: labels}}\n";
const std::string kSgd = "  optimizer: {sgd: {rate: 0.1}}\n";

std::vector<std::string> names_of_states(const Module& module) {
  std::vector<std::string> names;
  for (const State& state : module.states) names.push_back(state.input);
  return names;
}

std::string first_id(const std::string& train) {
  const auto made = prepare(kPerceptron, training_of(train), "decompose");
  return made->diags.all().empty() ? "" : made->diags.all()[0].id;
}

}  // namespace

TEST_CASE("parameters are what the loss depends on, but for numbers of formulas") {
  const auto made = prepare(kPerceptron, training_of(kLoss + "  optimizer: {adamw: {rate: 0.1}}\n"), "infer-types");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  CHECK(names_of_states(*made->module) ==
        std::vector<std::string>{"train.step", "w1", "w1.m", "w1.v", "b1", "b1.m", "b1.v", "w2", "w2.m", "w2.v"});
  const State& w1 = made->module->states[1];
  CHECK(w1.output == "w1.next");
  CHECK(made->module->constants[w1.initial].name == "w1");
  CHECK(made->module->states[2].of == "w1");
  CHECK_FALSE(made->module->states[2].initial);
  CHECK(made->module->training->loss == "loss");
}

TEST_CASE("frozen and chosen parameters") {
  const auto states = [](const std::string& more) {
    const auto made = prepare(kPerceptron, training_of(kLoss + kSgd + more), "infer-types");
    REQUIRE_MESSAGE(made->ok(), made->diags.text());
    return names_of_states(*made->module);
  };
  CHECK(states("  frozen: [\"w*\"]\n") == std::vector<std::string>{"train.step", "b1"});
  CHECK(states("  frozen: {ndim: 1}\n") == std::vector<std::string>{"train.step", "w1", "w2"});
  CHECK(states("  parameters: [\"w{i}\"]\n  frozen: [w2]\n") == std::vector<std::string>{"train.step", "w1"});
}

TEST_CASE("a step of gradient descent is the parameter less its derivative") {
  const auto made = prepare(kPerceptron, training_of(kLoss + "  optimizer: {sgd: {rate: 1}}\n"), "decompose");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  std::vector<Tensor> inputs = seeded_inputs(*made->module);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].is_real() && inputs[i].size() == 4)
      for (int64_t j = 0; j < 4; ++j) inputs[i].put_int(j, j % 2);
  const auto loss = [&] { return evaluate(*made->module, inputs).outputs[0].at(0); };
  const EvalResult step = evaluate(*made->module, inputs);
  REQUIRE(step.error.empty());
  const Graph& graph = made->module->graph;
  int compared = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = graph.value(graph.inputs()[i]).name;
    const auto next =
        std::ranges::find_if(graph.outputs(), [&](const auto& out) { return out.name == name + ".next"; });
    if (next == graph.outputs().end() || name == "train.step") continue;
    const Tensor after = step.outputs[static_cast<size_t>(next - graph.outputs().begin())], before = inputs[i];
    for (int64_t e = 0; e < before.size(); ++e, ++compared) {
      constexpr double kStep = 1e-4;
      inputs[i].real[e] = before.real[e] + kStep;
      const double above = loss();
      inputs[i].real[e] = before.real[e] - kStep;
      const double below = loss();
      inputs[i].real[e] = before.real[e];
      CHECK(before.real[e] - after.real[e] == doctest::Approx((above - below) / (2 * kStep)).epsilon(1e-3));
    }
  }
  CHECK(compared == 15 + 5 + 10);
}

TEST_CASE("an optimizer of the user's own is a function in a file") {
  const std::string file = "build/test_optimizer.onnxtxt";
  std::FILE* out = std::fopen(file.c_str(), "w");
  REQUIRE(out);
  std::fputs(R"(<domain: "mine", opset_import: ["" : 18]>
half <share: float = 0.5> (w, gradient, seen, step, rate) => (w_next, seen_next)
{ part = Constant <value_float = @share> () seen_next = Add (seen, gradient) scaled = Mul (w, part) w_next = Sub (scaled, seen) })",
             out);
  std::fclose(out);
  const auto made =
      prepare(kPerceptron, training_of(kLoss + "  optimizer: {" + file + ": {rate: 1, share: 0.25}}\n"), "infer-types");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  CHECK(names_of_states(*made->module)[2] == "w1.seen");
  out = std::fopen(file.c_str(), "w");
  REQUIRE(out);
  std::fputs(
      "<domain: \"mine\", opset_import: [\"\" : 18]> none (w, gradient, seen, step, rate) => (w_next) { w_next = Sub "
      "(w, seen) }",
      out);
  std::fclose(out);
  CHECK(first_id(kLoss + "  optimizer: {" + file + ": {rate: 1}}\n") == "train-optimizer");
  std::remove(file.c_str());
}

TEST_CASE("functions of one name are for parameters of different dims, and say what they keep") {
  const std::string file = "build/test_optimizers.onnxtxt";
  const auto write = [&](const std::string& states) {
    std::FILE* out = std::fopen(file.c_str(), "w");
    REQUIRE(out);
    const std::string body = " { seen_next = Add (seen, seen) w_next = Sub (w, gradient) }";
    std::fputs(
        ("<domain: \"mine\", overload: \"matrix\", opset_import: [\"\" : 18]> each (float[R, C] w, gradient, " +
         states + ", step, rate) => (w_next, seen_next)" + body +
         "\n<domain: \"mine\", opset_import: [\"\" : 18]> each (float[3] w, gradient, seen, step, rate) => (w_next, "
         "seen_next)" +
         body)
            .c_str(),
        out);
    std::fclose(out);
  };
  const std::string training = kLoss + "  optimizer: {" + file + ": {rate: 1}}\n";
  write("float[R, 1] seen");
  const auto made = prepare(kPerceptron, training_of(training + "  frozen: [b1]\n"), "infer-types");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  const Graph& graph = made->module->graph;
  for (const State& state : made->module->states)
    if (state.input.ends_with(".seen")) {
      const Dims of = graph.type(graph.find_value(state.of)).dims(),
                 seen = graph.type(graph.find_value(state.input)).dims();
      CHECK(seen == (of.size() == 2 ? Dims{of[0], 1} : of));
    }
  CHECK(first_id(training) == "train-optimizer-dims");  // b1 has neither two dims nor 3 elements
  write("int64[C, 7] seen");
  const auto whole = prepare(kPerceptron, training_of(training + "  frozen: [b1]\n"), "infer-types");
  REQUIRE_MESSAGE(whole->ok(), whole->diags.text());
  const TensorType& type = whole->module->graph.type(whole->module->graph.find_value("w1.seen"));
  CHECK(type.dtype == DType::I64);
  CHECK(type.dims()[1] == 7);
  write("float[R, Q] seen");
  CHECK(first_id(training) == "train-state-dims");
  std::remove(file.c_str());
}

TEST_CASE("mistakes in a training") {
  CHECK(first_id(kLoss + kSgd + "view: per-rank\n") == "train-with-unsupported");
  CHECK(first_id(kLoss + kSgd + "state: {x: scores}\n") == "train-with-unsupported");
  CHECK(first_id(kLoss + kSgd) == "");
  CHECK(first_id(kLoss) == "missing-key");
  CHECK(first_id(kLoss + kSgd + "  mode: eval\n") == "");
  CHECK(first_id("  loss: []\n" + kSgd) == "train-no-loss");
  CHECK(first_id("  loss: [{cross_entropy: {scores: scores, labels: x}}, nothing]\n" + kSgd) == "train-name");
  CHECK(first_id("  loss: nothing\n" + kSgd) == "train-name");
  CHECK(first_id("  loss: scores\n" + kSgd) == "train-loss-type");
  CHECK(first_id("  loss: {entropy: {scores: scores}}\n" + kSgd) == "train-function");
  CHECK(first_id("  loss: {cross_entropy: {scores: scores}}\n" + kSgd) == "train-operand");
  CHECK(first_id("  loss: {cross_entropy: {scores: score, labels: x}}\n" + kSgd) == "train-name");
  CHECK(first_id(kLoss + "  optimizer: {sdg: {rate: 1}}\n") == "train-function");
  CHECK(first_id(kLoss + "  optimizer: {sgd: {weight_decay: 1}}\n") == "train-rate");         // no rate
  CHECK(first_id(kLoss + "  optimizer: {sgd: {rate: 1, decay: 1}}\n") == "train-argument");   // unknown
  CHECK(first_id(kLoss + "  optimizer: {sgd: {rate: fast}}\n") == "train-argument");          // no number
  CHECK(first_id(kLoss + "  optimizer: {adam_direction: {rate: 1}}\n") == "train-function");  // a part of others
  CHECK(first_id(kLoss + "  optimizer: {missing.onnxtxt: {rate: 1}}\n") == "train-function-file");
  CHECK(first_id(kLoss + kSgd + "  metrics: {step: {mean_absolute_error: {}}}\n") == "train-metric-name");
  CHECK(first_id(kLoss + kSgd + "  metrics: {scores: loss}\n") == "train-metric");
  CHECK(first_id(kLoss + kSgd + "  metrics: {m: nothing}\n") == "train-name");
  CHECK(first_id(kLoss + kSgd + "  metrics: {m: scores}\n") == "train-metric-type");
  CHECK(first_id(kLoss + kSgd + "  parameters: []\n") == "train-empty-list");
  CHECK(first_id(kLoss + kSgd + "  statistics: micro-batch\n") == "train-statistics");
  CHECK(first_id(kLoss + kSgd + "  statistics: micro-batch\n  accumulate: 2\n  mode: eval\n") == "train-statistics");
  CHECK(first_id(kLoss + kSgd + "  statistics: micro-batch\n  accumulate: 2\n") == "");
  CHECK(first_id(kLoss + "  optimizer: {adam: {rate: 1, betas: 0.9}}\n") == "train-argument-count");
  CHECK(first_id(kLoss + "  optimizer: {adam: {rate: 1}}\n  groups: [{match: b1, betas: [0, 0, 0]}]\n") ==
        "train-argument-count");
  CHECK(first_id(kLoss + kSgd + "  frozen: [w3]\n") == "train-parameter");
  CHECK(first_id(kLoss + kSgd + "  frozen: [apart]\n") == "train-parameter");
  CHECK(first_id(kLoss + kSgd + "  frozen: [\"*\"]\n") == "train-no-parameters");
  CHECK(first_id(kLoss + kSgd + "  groups: [{weight_decay: 0}]\n") == "train-group");
  CHECK(first_id(kLoss + kSgd + "  groups: [{match: b1, decay: 0}]\n") == "train-argument");
  CHECK(first_id(kLoss + kSgd + "  rate: {decay: cosine}\n") == "train-argument");  // no number of steps
  CHECK(first_id("  inputs: {x: \"float[4]\"}\n" + kLoss.substr(kLoss.find('\n') + 1) + kSgd) == "train-input");
  CHECK(first_id("  inputs: {labels: \"int64[\"}\n" + kLoss.substr(kLoss.find('\n') + 1) + kSgd) == "train-input");
}

TEST_CASE("parameters that the loss does not depend on are refused, unless they are frozen or not asked for") {
  const std::string model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4, 3] x) => (float loss, float[3] other)
<float[3] a = {1, 2, 3}, float[3] b = {1, 2, 3}, float[3] unread = {1, 2, 3}, float[3] c = {1, 2, 3}> {
  p = Mul(x, a) loss = ReduceMean<keepdims = 0>(p) d = Mul(b, b) other = Add(c, d) })";
  const auto refusal = [&](const std::string& more) {
    const auto made = prepare(model, training_of("  loss: loss\n" + kSgd + more), "decompose");
    return made->ok() ? "" : made->diags.all()[0].id + ": " + made->diags.all()[0].message;
  };
  CHECK(
      refusal("").starts_with("train-apart: the loss 'loss' does not depend on 'b', 'c', which would get no gradient"));
  CHECK(refusal("  frozen: [c]\n").starts_with("train-apart: the loss 'loss' does not depend on 'b', which"));
  CHECK(refusal("  frozen: [b, c]\n") == "");
  CHECK(refusal("  parameters: [a]\n") == "");
}

TEST_CASE("a parameter whose way to the loss has no derivative is refused, unless it is frozen") {
  const std::string model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4, 3] x) => (float loss) <float[3] a = {1, 2, 3}, float[3] b = {1, 2, 3}> {
  r = Round(a) s = Mul(r, b) p = Mul(x, s) loss = ReduceMean<keepdims = 0>(p) })";
  const auto made = prepare(model, training_of("  loss: loss\n" + kSgd), "decompose");
  REQUIRE_FALSE(made->diags.ok());
  CHECK(made->diags.all()[0].id == "train-no-path");
  CHECK(made->diags.all()[0].message.find("'a'") != std::string::npos);
  const auto frozen = prepare(model, training_of("  loss: loss\n" + kSgd + "  frozen: [a]\n"), "decompose");
  CHECK_MESSAGE(frozen->ok(), frozen->diags.text());
}

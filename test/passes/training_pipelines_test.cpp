// Trainings in stages: forward, backward and update are blocks, proved, and each step is that of one rank.
#include <algorithm>
#include <random>

#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr const char* kTwoLayers = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6, 8] w1 = random(1, 0.5), float[8] b1 = random(2, 0.5), float[8, 6] w2 = random(3, 0.5)> {
  [norm] n = Tanh(x) [fc1] h1 = MatMul(n, w1) [bias1] h2 = Add(h1, b1) [act] h = Gelu(h2) [fc2] y = MatMul(h, w2)
})";
// A weight that the first and the last stage read, and a skip connection.
constexpr const char* kTied = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6, 6] w = random(1, 0.5), float[6, 6] v = random(2, 0.5)> {
  [norm] n = Tanh(x) [fc1] h1 = MatMul(n, w) [act] h2 = Gelu(h1) [mid] h3 = MatMul(h2, v) [skip] h4 = Add(h3, n)
  [turn] t = Transpose <perm = [1, 0]> (w) [fc2] y = MatMul(h4, t)
})";

// Values made of a parameter alone are computed before the micro-batches, in the stage that reads them.
constexpr const char* kScaled = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6, 8] w1 = random(1, 0.5), float[8] scale = random(2, 0.5), float[8, 6] w2 = random(3, 0.5)> {
  [heat] s = Exp(scale) [norm] n = Tanh(x) [fc1] h1 = MatMul(n, w1) [warm] h2 = Mul(h1, s) [act] h = Gelu(h2) [fc2] y = MatMul(h, w2)
})";

// A parameter that is read through a view alone.
constexpr const char* kViewed = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[8, 6] w1 = random(1, 0.5), float[8, 6] w2 = random(2, 0.5)> {
  [turn] t = Transpose <perm = [1, 0]> (w1) [fc1] h1 = MatMul(x, t) [act] h = Gelu(h1) [fc2] y = MatMul(h, w2)
})";

// Two ways through the same weights, each with a loss.
constexpr const char* kTwoWays = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] u, float[12, 6] target) => (float[12, 6] y, float[12, 6] z)
<float[6, 6] w = random(1, 0.5), float[6, 6] v = random(2, 0.5)> {
  [there1] h1 = MatMul(x, w) [there2] h2 = Tanh(h1) [there3] y = MatMul(h2, v)
  [back1] k1 = MatMul(u, w) [back2] k2 = Tanh(k1) [back3] z = MatMul(k2, v)
})";

const std::string kMomentum =
    "train:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n  optimizer: {momentum: {rate: 0.1}}\n";
const std::string kClipped =
    "train:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n  optimizer: {adamw: {rate: 0.1}}\n"
    "  rate: {decay: cosine, warmup: 2, steps: 10, final: 0.1}\n  clip: {norm: 0.1}\n";

const std::string kTwoLosses =
    "train:\n  loss:\n    - {mean_squared_error: {predictions: y, targets: target}}\n"
    "    - {mean_squared_error: {predictions: z, targets: target}}\n  optimizer: {momentum: {rate: 0.1}}\n";

const char* const kApart =
    "a: {ranks: [0], mesh: {t: 1}}, b: {ranks: [1], mesh: {t: 1}}, c: {ranks: [2], mesh: {t: 1}}";
const char* const kOver =
    "a: {ranks: [0, 1], mesh: {t: 2}}, b: {ranks: [1, 2], mesh: {t: 2}}, c: {ranks: [2, 0], mesh: {t: 2}}";

struct StagedCase {
  const char *model, *stages;
};
const StagedCase kCases[] = {
    {kTwoLayers, "A: {place: a, nodes: [norm, fc1, bias1]}, B: {place: b, nodes: [act]}, C: {place: c, nodes: [fc2]}"},
    {kTwoLayers,
     "A: {place: a, nodes: [norm, fc1]}, B: {place: b, nodes: [bias1]}, C: {place: c, nodes: [act]}, "
     "D: {place: a, nodes: [fc2]}"},
    {kTied,
     "A: {place: a, nodes: [norm, fc1]}, B: {place: b, nodes: [act, mid]}, C: {place: c, nodes: [skip, turn, fc2]}"},
    {kViewed, "A: {place: a, nodes: [fc1]}, B: {place: b, nodes: [act]}, C: {place: c, nodes: [fc2]}"},
    {kScaled, "A: {place: a, nodes: [norm, fc1]}, B: {place: b, nodes: [warm, act]}, C: {place: c, nodes: rest}"},
};

std::string in_stages(const std::string& train, const char* places, const char* stages, int micro_batches,
                      const std::string& order) {
  return "weft: 1\nplaces: {" + std::string(places) + "}\npipeline:\n  stages: {" + stages +
         "}\n  micro_batches: " + std::to_string(micro_batches) + "\n  order: " + order + "\n" + train;
}

/// Every output, in each place that makes it, is that of one rank.
void check_staged_step(const char* model, const std::string& train, const std::string& yaml) {
  CAPTURE(yaml);
  const auto one = prepare(model, "weft: 1\n" + train, "decompose");
  REQUIRE_MESSAGE(one->ok(), one->diags.text());
  const EvalResult expected = evaluate(*one->module, seeded_inputs(*one->module));
  REQUIRE(expected.error.empty());
  const Planned made = plan_of(model, yaml);
  for (const std::string& line : prove_plan(made.plan)) CHECK_MESSAGE(false, line);
  for (uint32_t seed = 0; seed < 3; ++seed) {
    const PlanRun run = evaluate_plan(made.plan, port_inputs(made.plan), seed);
    REQUIRE_MESSAGE(run.error.empty(), run.error);
    const std::vector<Graph::Output>& outputs = one->module->graph.outputs();
    for (size_t o = 0; o < made.plan.outputs.size(); ++o) {
      const auto same = std::ranges::find(outputs, made.plan.outputs[o].name, &Graph::Output::name);
      REQUIRE(same != outputs.end());
      INFO(same->name);
      CHECK(relative_error(run.outputs[o], expected.outputs[static_cast<size_t>(same - outputs.begin())]) < 2e-5);
    }
  }
}

/// True if the Plan ends in some order of its streams with the outputs of one rank.
bool runs_as_one_rank(const Plan& plan, const Module& one, const EvalResult& expected, uint32_t seed) {
  const PlanRun run = evaluate_plan(plan, port_inputs(plan), seed);
  const std::vector<Graph::Output>& outputs = one.graph.outputs();
  for (size_t o = 0; run.error.empty() && o < plan.outputs.size(); ++o) {
    const auto same = std::ranges::find(outputs, plan.outputs[o].name, &Graph::Output::name);
    const Tensor& wanted = expected.outputs[static_cast<size_t>(same - outputs.begin())];
    if (relative_error(run.outputs[o], wanted) >= 2e-5) return false;
  }
  return run.error.empty();
}

}  // namespace

TEST_CASE("training pipelines: steps in stages are those of one rank") {
  for (const StagedCase& one : kCases)
    for (const char* places : {kApart, kOver})
      for (const std::string& train : {kMomentum, kClipped})
        for (const int micro_batches : {1, 3})
          for (const char* order : {"gpipe", "1f1b", "zb-h1", "1f1b\n  backward: split"})
            check_staged_step(one.model, train, in_stages(train, places, one.stages, micro_batches, order));
}

TEST_CASE("training pipelines: places slice the samples of a micro-batch over unequally many ranks") {
  constexpr const char* kStages = "A: {place: a, nodes: [norm, fc1]}, B: {place: b, nodes: rest}";
  for (const char* places : {"a: {ranks: [0], mesh: {d: 1, e: 1}}, b: {ranks: [1, 2], mesh: {d: 1, e: 2}}",
                             "a: {ranks: [0, 1], mesh: {d: 2, e: 1}}, b: {ranks: [2], mesh: {d: 1, e: 1}}",
                             "a: {ranks: [0, 1], mesh: {d: 2, e: 1}}, b: {ranks: [2, 3, 4], mesh: {d: 1, e: 3}}"})
    for (const char* order : {"gpipe", "1f1b\n  backward: split"})
      check_staged_step(kTwoLayers, kMomentum,
                        in_stages(kMomentum, places, kStages, 2, order) + "shard: {x: {d: 0}, h1.use: {e: 0}}\n");
}

TEST_CASE("training pipelines: the halves of a split all-reduce are of its block") {
  constexpr const char* kStages = "A: {place: a, nodes: [norm, fc1]}, B: {place: b, nodes: rest}";
  constexpr const char* kPlacesOfTwo = "a: {ranks: [0, 1], mesh: {t: 2}}, b: {ranks: [2], mesh: {t: 1}}";
  for (const char* split : {"op: fc1.grad.sum, dim: 0", "op: fc1.grad.sum, dim: 1"})
    check_staged_step(kTwoLayers, kMomentum,
                      in_stages(kMomentum, kPlacesOfTwo, kStages, 3, "1f1b") +
                          "shard: {x: {t: 0}}\ntransform: [{split: {" + split + ", into: [rs, ag]}}]\n");
}

TEST_CASE(
    "training pipelines: sums of gradients run beside updates, or in kernels, when their micro-batches are done") {
  constexpr const char* kStages = "A: {place: a, nodes: [norm, fc1, bias1]}, B: {place: b, nodes: rest}";
  constexpr const char* kPairs = "a: {ranks: [0, 1], mesh: {t: 2}}, b: {ranks: [2, 3], mesh: {t: 2}}";
  for (const char* steps :
       {"[{overlap: {ops: [fc1.grad.sum, bias1.grad.sum]}}]", "[{overlap: {ops: [fc2.grad.sum]}}]",
        "[{fuse: {ops: [\"*.grad.sum*\"], into: sums, bucket: 64}}]",
        "[{fuse: {ops: [\"*.grad.sum*\"], into: sums, bucket: 64}}, {overlap: {ops: [\"sums.*\"]}}]",
        "[{split: {op: fc1.grad.sum, dim: 0, into: [rs, ag]}}, {overlap: {ops: [rs]}}]"})
    for (const std::string& train : {kMomentum, kClipped})
      for (const int micro_batches : {1, 3})
        for (const char* order : {"gpipe", "1f1b", "zb-h1", "1f1b\n  backward: split"})
          check_staged_step(kTwoLayers, train,
                            in_stages(train, kPairs, kStages, micro_batches, order) +
                                "shard: {x: {t: 0}, target: {t: 0}}\ntransform: " + steps + "\n");
}

TEST_CASE("training pipelines: a gather moves after an update, whose slices are of its block") {
  check_staged_step(
      kTwoLayers, kMomentum,
      in_stages(kMomentum, "a: {ranks: [0, 1], mesh: {t: 2}}, b: {ranks: [2], mesh: {t: 1}}",
                "A: {place: a, nodes: [norm, fc1]}, B: {place: b, nodes: rest}", 3, "1f1b") +
          "shard: {x: {t: 0}}\ntransform:\n  - split: {op: fc1.grad.sum, dim: 0, into: [rs, ag]}\n  - reorder: "
          "{gather: ag, past: [w1.update/whole, w1.velocity.next, w1.update/change, w1.next]}\n");
}

TEST_CASE("training pipelines: chains in opposite directions share weights, and do not wait for each other") {
  const char* stages =
      "A: {place: a, nodes: [there1, there2]}, B: {place: b, nodes: there3}, C: {place: b, nodes: [back1, back2]}, "
      "D: {place: a, nodes: back3}";
  const char* places = "a: {ranks: [0], mesh: {t: 1}}, b: {ranks: [1], mesh: {t: 1}}";
  for (const char* order : {"gpipe", "1f1b", "chimera"})
    for (const int micro_batches : {1, 3, 6})
      check_staged_step(kTwoWays, kTwoLosses, in_stages(kTwoLosses, places, stages, micro_batches, order));
}

TEST_CASE("training pipelines: what is made of parameters alone belongs to whoever reads it") {
  const char* model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6, 6] w1 = random(1, 0.5), float[6] scale = random(2, 0.5), float[6, 6] w2 = random(3, 0.5)> {
  [heat] s0 = Exp(scale) [more] s = Tanh(s0) [fc1] h1 = MatMul(x, w1) [warm] h2 = Mul(h1, s) [act] h = Gelu(h2)
  [fc2] h3 = MatMul(h, w2) [cool] y = Mul(h3, s)
})";
  for (const char* stages :
       {"A: {place: a, nodes: [heat, more, fc1, warm]}, B: {place: b, nodes: act}, C: {place: c, nodes: rest}",
        "A: {place: a, nodes: [fc1, warm]}, B: {place: b, nodes: act}, C: {place: c, nodes: [heat, more, fc2, cool]}",
        "A: {place: a, nodes: [fc1, warm]}, B: {place: b, nodes: [act, heat, more]}, C: {place: c, nodes: fc2}, D: "
        "{place: a, nodes: cool}"})
    for (const int micro_batches : {1, 3})
      for (const char* order : {"gpipe", "1f1b\n  backward: split"})
        check_staged_step(model, kClipped, in_stages(kClipped, kApart, stages, micro_batches, order));
}

TEST_CASE("training pipelines: what a stage has received is not computed again elsewhere") {
  const char* model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6, 6] w = random(2, 0.5)> { [a1] h1 = Sin(x) [b1] h2 = Tanh(h1) [c1] h3 = Sigmoid(h2) [c2] y = MatMul(h3, w) })";
  const std::string train = kMomentum + "  recompute: all\n";
  for (const char* stages : {"A: {place: a, nodes: a1}, B: {place: b, nodes: b1}, C: {place: a, nodes: rest}",
                             "A: {place: a, nodes: a1}, B: {place: a, nodes: b1}, C: {place: b, nodes: rest}"})
    for (const int micro_batches : {1, 3})
      check_staged_step(model, train,
                        in_stages(train, "a: {ranks: [0], mesh: {t: 1}}, b: {ranks: [1], mesh: {t: 1}}", stages,
                                  micro_batches, "gpipe"));
}

TEST_CASE("training pipelines: names of derivatives and losses list nothing") {
  // The transposed of 'mid' is a node of the second stage, and a part of derivatives of the third.
  const char* views = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 3, 4] x, float[12, 3, 4] target) => (float[12, 3, 4] y)
<float[4, 4] w1 = random(1, 0.5), float[4, 4] w2 = random(2, 0.5)> {
  [s0_fc] h = MatMul(x, w1) [s1_mid] m = MatMul(h, w2) [s1_turn] t = Transpose <perm = [0, 2, 1]> (m)
  [s2_at] a = MatMul(m, t) [s2_part] p = Softmax <axis = -1> (a) [s2_y] y = MatMul(p, m)
})";
  // 'mean_squared_error' begins as the node of the first stage does.
  const char* losses = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6, 6] w1 = random(1, 0.5), float[6, 6] w2 = random(3, 0.5)> { [m1] h = MatMul(x, w1) [n1] y = MatMul(h, w2) })";
  for (const char* order : {"gpipe", "zb-h1"}) {
    check_staged_step(
        views, kMomentum,
        in_stages(kMomentum, kApart,
                  "A: {place: a, nodes: 's0_*'}, B: {place: b, nodes: 's1_*'}, C: {place: c, nodes: 's2_*'}", 2,
                  order));
    check_staged_step(losses, kMomentum,
                      in_stages(kMomentum, "a: {ranks: [0], mesh: {t: 1}}, b: {ranks: [1], mesh: {t: 1}}",
                                "A: {place: a, nodes: 'm*'}, B: {place: b, nodes: 'n*'}", 2, order));
  }
}

TEST_CASE("training pipelines: all parts of a Dropout have its name") {
  const char* model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6, 6] w1 = random(1, 0.5), float[6, 6] w2 = random(3, 0.5), float r = {0.3}> {
  [a1] h1 = MatMul(x, w1) [a2] h2 = Dropout(h1, r) [b1] y = MatMul(h2, w2)
})";
  const char* places = "a: {ranks: [0], mesh: {t: 1}}, b: {ranks: [1], mesh: {t: 1}}";
  for (const char* stages : {"A: {place: a, nodes: 'a*'}, B: {place: b, nodes: 'b*'}",
                             "A: {place: a, nodes: a1}, B: {place: b, nodes: [a2, b1]}"}) {
    const Planned made = plan_of(model, in_stages(kMomentum, places, stages, 2, "1f1b"));
    for (const std::string& line : prove_plan(made.plan)) CHECK_MESSAGE(false, line);
  }
}

TEST_CASE("training pipelines: a backward pass that reads nothing of its forward pass") {
  const char* model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 8] x) => (float loss)
<float[1] w = random(1, 0.5)> { [a1] h = Mul(x, w) [b1] y = Mul(h, h) [b2] loss = ReduceSum <keepdims = 0> (y) })";
  const std::string train = "train:\n  loss: loss\n  optimizer: {sgd: {rate: 0.1}}\n  parameters: w\n";
  const char* places = "a: {ranks: [0], mesh: {}}, b: {ranks: [0, 1], mesh: {d: 2}}";
  const char* stages = "A: {place: a, nodes: a1}, B: {place: b, nodes: rest}";
  for (const char* order : {"gpipe", "1f1b"})
    check_staged_step(model, train, in_stages(train, places, stages, 2, order));
  const auto made = prepare(
      model, in_stages(train, places, stages, 1, "[[A.forward, 0], [B.backward, 0], [B.forward, 0], [A.backward, 0]]"),
      "assign-places");
  REQUIRE(!made->diags.ok());
  CHECK(made->diags.all().front().id == "order-entry");
}

TEST_CASE("training pipelines: a loss that no parameter takes part in runs in micro-batches as the others") {
  const char* model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[8, 8] x, int64[8] left, int64[8] right) => (float[8, 8] y, float[8, 8] z)
<float[8] shift = random(1, 0.5), float[8, 8] w = random(2, 0.5)> {
  [a1] h = Add(x, shift) [a2] y = MatMul(h, w) [b1] z = Add(x, h)
})";
  const std::string train = R"(train:
  loss:
    - {cross_entropy: {scores: y, labels: left}}
    - {cross_entropy: {scores: z, labels: right}}
  optimizer: {adamw: {rate: 1e-3}}
  frozen: [shift]
)";
  const char* places = "a: {ranks: [1], mesh: {}}, b: {ranks: [0, 1], mesh: {d: 2}}";
  check_staged_step(model, train,
                    in_stages(train, places, "A: {place: a, nodes: [a1, a2]}, B: {place: b, nodes: rest}", 4, "1f1b"));
}

TEST_CASE("training pipelines: stages that read each other run in step, whatever the order is called") {
  const char* model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6, 6] w1 = random(1, 0.5), float[6, 6] w2 = random(2, 0.5), float[6, 6] w3 = random(3, 0.5), float[6, 6] w4 = random(4, 0.5)> {
  [a1] h1 = MatMul(x, w1) [b1] h2 = MatMul(h1, w2) [a2] h3 = Tanh(h2) [b2] h4 = MatMul(h3, w3) [c1] y = MatMul(h4, w4)
})";
  for (const char* stages :
       {"A: {place: a, nodes: 'a*'}, B: {place: b, nodes: 'b*'}, C: {place: c, nodes: c1}",
        "A: {place: a, nodes: [a1, a2]}, B: {place: b, nodes: b1}, C: {place: c, nodes: rest}",
        "A: {place: b, nodes: [a1, b2]}, B: {place: c, nodes: [b1, a2]}, C: {place: a, nodes: c1}"})
    for (const int micro_batches : {1, 2, 6})
      for (const char* order : {"gpipe", "1f1b", "zb-h1"})
        check_staged_step(model, kMomentum, in_stages(kMomentum, kApart, stages, micro_batches, order));
}

TEST_CASE("training pipelines: what all micro-batches share is made once, and sent once before them") {
  const char* model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[6, 4] shared, float[12, 6] target) => (float[12, 6] y)
<float[4, 6] w1 = random(1, 0.5), float[6, 6] w2 = random(2, 0.5), float[6, 6] w3 = random(3, 0.5)> {
  [a1] s = Tanh(shared) [a2] h1 = MatMul(x, w2) [b1] t = MatMul(s, w1) [b2] h2 = MatMul(h1, t) [c1] u = Sin(s)
  [c2] v = MatMul(u, w1) [c3] h3 = MatMul(h2, v) [c4] y = MatMul(h3, w3)
})";
  const char* over =
      "a: {ranks: [0, 1], mesh: {t: 2}}, b: {ranks: [1], mesh: {t: 1}}, c: {ranks: [2, 0], mesh: {t: 2}}";
  for (const char* places : {kApart, over})
    for (const char* stages :
         {"A: {place: a, nodes: 'a*'}, B: {place: b, nodes: 'b*'}, C: {place: c, nodes: 'c*'}",
          "A: {place: a, nodes: [a1, c1]}, B: {place: b, nodes: [a2, 'b*']}, C: {place: c, nodes: rest}",
          "A: {place: a, nodes: a1}, B: {place: b, nodes: [a2, 'b*', c1]}, C: {place: c, nodes: rest}"})
      for (const int micro_batches : {1, 3})
        for (const char* order : {"gpipe", "1f1b\n  backward: split"})
          check_staged_step(model, kMomentum, in_stages(kMomentum, places, stages, micro_batches, order));
}

TEST_CASE("training pipelines: a later stage reads before the backward pass of an earlier one at the same place") {
  const char* model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y, float[12, 6] z)
<float[6, 6] w1 = random(1, 0.5), float[6, 6] w2 = random(2, 0.5)> {
  [a1] h = MatMul(x, w1) [b1] g = MatMul(h, w2) [b2] k = Sin(g) [c1] y = Add(k, g) [d1] z = Tanh(h)
})";
  const char* places = "a: {ranks: [1], mesh: {}}, b: {ranks: [0], mesh: {}}";
  const char* stages =
      "A: {place: a, nodes: a1}, B: {place: b, nodes: [b1, b2]}, C: {place: a, nodes: c1}, D: {place: b, nodes: d1}";
  for (const char* order : {"gpipe", "1f1b", "1f1b\n  backward: split"})
    for (const int micro_batches : {3, 6})
      check_staged_step(model, kTwoLosses, in_stages(kTwoLosses, places, stages, micro_batches, order));
}

TEST_CASE("training pipelines: a sum of gradients is where the last of them is made") {
  // The views of 'cut' follow the first stage, so that the gradient of h comes from both.
  const char* model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6, 6] w1 = random(1, 0.5), float[3, 6] w2 = random(2, 0.5), int64[2] parts = {3, 3}> {
  [a1] h = MatMul(x, w1) [b1] t = Tanh(h) [cut] l, r = Split <axis = -1> (h, parts) [b2] p = Mul(l, r)
  [b3] q = MatMul(p, w2) [b4] y = Add(q, t)
})";
  const char* over = "a: {ranks: [0, 1], mesh: {t: 2}}, b: {ranks: [1], mesh: {t: 1}}";
  for (const char* places : {over, "a: {ranks: [0], mesh: {t: 1}}, b: {ranks: [1], mesh: {t: 1}}"})
    for (const char* order : {"gpipe", "1f1b\n  backward: split"})
      for (const std::string& train : {kMomentum, kMomentum + "  recompute: all\n"})
        check_staged_step(model, train,
                          in_stages(train, places, "A: {place: a, nodes: a1}, B: {place: b, nodes: rest}", 2, order));
}

TEST_CASE("training pipelines: nodes of two stages that share an op have their derivatives each in its own") {
  const char* model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6] s1 = random(1, 0.5), float[6] s2 = random(2, 0.5), float[6] s3 = random(3, 0.5), float[1] s4 = random(4, 0.5), float[6, 6] w = random(5, 0.5)> {
  [a1] h = LayerNormalization(x, s1, s1) [b1] g = MatMul(h, w) [c1] e = Exp(s4) [c2] f = Mul(s3, e)
  [c3] k = LayerNormalization(x, s2, f) [c4] y = Add(k, g)
})";
  const char* stages = "A: {place: a, nodes: a1}, B: {place: b, nodes: b1}, C: {place: a, nodes: rest}";
  const char* places = "a: {ranks: [0], mesh: {t: 1}}, b: {ranks: [0, 1], mesh: {t: 2}}";
  for (const char* order : {"gpipe", "1f1b"})
    check_staged_step(model, kMomentum, in_stages(kMomentum, places, stages, 2, order));
}

TEST_CASE("training pipelines: an input with as many columns as the batch has rows is the same in all micro-batches") {
  const char* model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4, 3, 4] x, float[4] shift, float[4, 3, 4] target) => (float[4, 3, 4] y)
<float[4, 4] w = random(1, 0.5)> { [a1] h = MatMul(x, w) [b1] g = Tanh(h) [b2] y = Add(g, shift) })";
  const char* stages = "A: {place: a, nodes: a1}, B: {place: b, nodes: rest}";
  const char* places = "a: {ranks: [0], mesh: {}}, b: {ranks: [1], mesh: {}}";
  check_staged_step(model, kMomentum, in_stages(kMomentum, places, stages, 2, "1f1b"));
}

TEST_CASE("training pipelines: a weight sliced at one place lies whole at another, with what its optimizer keeps") {
  const char* places = "a: {ranks: [0, 1], mesh: {t: 2}}, b: {ranks: [2], mesh: {u: 1}}, c: {ranks: [0], mesh: {u: 1}}";
  const std::string train =
      "train:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n"
      "  optimizer: {adamw: {rate: 1e-2, epsilon: 1e-3}}\n";
  const auto check = [&](const char* model, const char* stages, const char* shard) {
    check_staged_step(model, train, in_stages(train, places, stages, 2, "1f1b") + "shard: " + shard + "\n");
  };
  check(kTied,
        "A: {place: a, nodes: [norm, fc1]}, B: {place: b, nodes: [act, mid]}, C: {place: c, nodes: [skip, turn, fc2]}",
        "{w: {t: 0}}");
  // The first stage that reads the bias updates it, but it is made something of first at the other place.
  check(R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6, 8] w1 = random(1, 0.5), float[8] bias = random(2, 0.5), float[8, 6] w2 = random(3, 0.5)> {
  [heat] s = Exp(bias) [fc1] h1 = MatMul(x, w1) [warm] h2 = Add(h1, bias) [act] h = Gelu(h2) [cool] h3 = Mul(h, s) [fc2] y = MatMul(h3, w2)
})",
        "A: {place: b, nodes: [fc1, warm]}, B: {place: c, nodes: act}, C: {place: a, nodes: [heat, cool, fc2]}",
        "{bias: {t: 0}}");
}

TEST_CASE("training pipelines: blocks have names, phases and turns") {
  const Planned made = plan_of(kTied, in_stages(kClipped, kApart, kCases[2].stages, 2, "gpipe"));
  std::vector<std::string> names;
  for (const Block& block : made.plan.blocks) names.push_back(block.name);
  CHECK(join(names, " ") ==
        "C_start A_forward A_backward B_forward B_backward C_forward C_backward C_figures C_update A_update B_update "
        "A_update_2 C_update_2 states_of_a states_of_c");
}

TEST_CASE("training pipelines: stages that an order does not fit, and more stages than nodes") {
  const auto id = [](const std::string& pipeline) {
    const auto made = prepare(kTwoLayers, "weft: 1\npipeline: " + pipeline + "\n" + kMomentum, "assign-places");
    return made->diags.ok() ? std::string() : made->diags.all().front().id;
  };
  CHECK(id("{stages: 2, micro_batches: 3, order: zb-h1}") == "");
  CHECK(id("{stages: 3, micro_batches: 3, order: zb-v}") == "order-stages");
  CHECK(id("{stages: 2, micro_batches: 2, order: dualpipe}") == "order-stages");
  CHECK(id("{stages: 50, micro_batches: 3}") == "stages-too-many");
  CHECK(id("{stages: {a: [norm, fc1], b: act}, micro_batches: 3}") == "stage-missing");
}

TEST_CASE("training pipelines: tables that lack a block, or name one that there is not") {
  const auto id = [](const std::string& more) {
    const auto made = prepare(kTwoLayers,
                              "weft: 1\npipeline: {stages: {a: [norm, fc1, bias1, act], b: rest}, micro_batches: 1, "
                              "backward: split, order: [[a.forward, 0], [b.forward, 0], [b.backward, 0]" +
                                  more + "]}\n" + kMomentum,
                              "assign-places");
    return made->diags.ok() ? std::string() : made->diags.all().front().id;
  };
  CHECK(id(", [b.weight, 0], [a.backward, 0], [a.weight, 0]") == "");
  CHECK(id(", [b.weight, 0], [a.backward, 0]") == "order-missing");
  CHECK(id(", [a.backward, 0], [a.weight, 0]") == "order-missing");
}

TEST_CASE("training pipelines: an order that was changed is refused by the proof, or runs as before") {
  std::mt19937 random(7);
  for (const char* order : {"1f1b", "zb-h1"}) {
    const StagedCase& staged = kCases[order[0] == '1' ? 1 : 2];
    const auto one = prepare(staged.model, "weft: 1\n" + kMomentum, "decompose");
    const EvalResult expected = evaluate(*one->module, seeded_inputs(*one->module));
    const Planned made = plan_of(staged.model, in_stages(kMomentum, kApart, staged.stages, 3, order));
    const size_t turns = made.plan.order.size();
    const auto any = [&] { return std::uniform_int_distribution<size_t>(0, turns - 1)(random); };
    int refused = 0, changed = 0;
    for (int i = 0; i < 60; ++i) {
      Plan swapped = made.plan, lacks = made.plan, repeats = made.plan;
      std::swap(swapped.order[any()], swapped.order[any()]);
      lacks.order.erase(lacks.order.begin() + static_cast<std::ptrdiff_t>(any()));
      repeats.order.push_back(repeats.order[any()]);
      CHECK(!prove_plan(lacks).empty());
      CHECK(!prove_plan(repeats).empty());
      ++changed;
      if (!prove_plan(swapped).empty())
        ++refused;
      else
        CHECK(runs_as_one_rank(swapped, *one->module, expected, static_cast<uint32_t>(i)));
    }
    CHECK(refused > 10);
    CHECK(refused < changed);
  }
}

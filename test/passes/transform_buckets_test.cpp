// Collectives that a fuse step puts in buckets: which go together, and that a training computes the same with them.
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr const char* kBucketLayers = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6, 8] w1 = random(1, 0.5), float[8, 8] w2 = random(2, 0.5), float[8, 6] w3 = random(3, 0.5)> {
  [fc1] h1 = MatMul(x, w1) [act1] a1 = Tanh(h1) [fc2] h2 = MatMul(a1, w2) [act2] a2 = Tanh(h2) [fc3] y = MatMul(a2, w3)
})";
constexpr const char* kBucketLoss =
    "train:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n  clip: {norm: 0.5}\n  optimizer: ";

/// Data parallel training on that many ranks.
std::string training_on(int ranks, const std::string& shard, const std::string& transform,
                        const std::string& optimizer) {
  return format("weft: 1\nmesh: {dp: {}}\nshard: {x: {dp: 0}, target: {dp: 0}{}}\n", ranks, shard) +
         (transform.empty() ? "" : "transform:\n" + transform) + kBucketLoss + optimizer + "\n";
}

std::string bucket_step(const std::string& ops, const std::string& size) {
  return "  - fuse: {ops: [" + ops + "], into: bucket, bucket: " + size + "}\n";
}
const std::string kBeside = "  - overlap: {ops: [\"bucket.*\"]}\n";

/// The nodes whose collectives each bucket holds, in the order of the steps.
std::vector<std::string> buckets_of(const Plan& plan) {
  std::vector<std::string> texts;
  for (const Block& block : plan.blocks)
    for (const Step& step : block.steps) {
      if (!step.name.starts_with("bucket.")) continue;
      std::vector<std::string> nodes;
      for (const OriginId origin : step.origins) nodes.push_back(plan.origins[origin.index].name);
      texts.push_back(step.name + ": " + join(nodes, ", "));
    }
  return texts;
}

/// The Plan of a training with its sums or scatters in buckets, which every order of the streams computes as without.
Planned check_buckets(int ranks, const std::string& shard, const std::string& steps, const std::string& optimizer) {
  Planned made = plan_of(kBucketLayers, training_on(ranks, shard, steps, optimizer));
  for (const std::string& line : prove_plan(made.plan)) CHECK_MESSAGE(false, line);
  const Planned plain = plan_of(kBucketLayers, training_on(ranks, shard, "", optimizer));
  const std::vector<Tensor> inputs = port_inputs(made.plan);
  const PlanRun wanted = evaluate_plan(plain.plan, inputs, 0);
  REQUIRE(wanted.error == "");
  for (uint32_t seed = 0; seed < 5; ++seed) CHECK(same_outputs(evaluate_plan(made.plan, inputs, seed), wanted));
  return made;
}

std::string bucket_refusal(const std::string& ops) {
  return prepare(kBucketLayers, training_on(2, "", bucket_step(ops, "1MiB"), "{sgd: {rate: 0.1}}"), "apply-transforms")
      ->diags.text();
}

}  // namespace

TEST_CASE("a bucket is full with its bytes, in the order of the way back") {
  const auto buckets = [](const std::string& size) {
    return buckets_of(
        check_buckets(2, "", bucket_step("\"fc*.grad.sum\"", size) + kBeside, "{momentum: {rate: 0.1}}").plan);
  };
  CHECK(buckets("1") == std::vector<std::string>{"bucket.0: fc3.grad", "bucket.1: fc2.grad", "bucket.2: fc1.grad"});
  CHECK(buckets("200") == std::vector<std::string>{"bucket.0: fc3.grad, fc2.grad", "bucket.1: fc1.grad"});
  CHECK(buckets("1MiB") == std::vector<std::string>{"bucket.0: fc3.grad, fc2.grad, fc1.grad"});
}

TEST_CASE("buckets of every optimizer, of sums and of scatters") {
  for (const char* optimizer : {"{sgd: {rate: 0.1}}", "{adamw: {rate: 0.1}}", "{lamb: {rate: 0.1}}"})
    check_buckets(2, "", bucket_step("\"*.grad.sum*\"", "300") + kBeside, optimizer);
  const std::string zero = ", \"*.m\": {dp: 0}, \"*.v\": {dp: 0}";
  const Planned made =
      check_buckets(2, zero, bucket_step("\"fc*.grad.scatter\"", "300") + kBeside, "{adamw: {rate: 0.1}}");
  CHECK(buckets_of(made.plan).size() == 2);
}

TEST_CASE("three ranks halve the sums whose rows they divide, and leave the others whole") {
  const Planned made = check_buckets(3, "", bucket_step("\"fc*.grad.sum\"", "1MiB"), "{sgd: {rate: 0.1}}");
  int scatters = 0, sums = 0;
  for (const Kernel& kernel : made.plan.kernels)
    for (const OpId id : kernel.body.order()) {
      scatters += kernel.body.op(id).kind == OpKind::ReduceScatter;
      sums += kernel.body.op(id).kind == OpKind::AllReduce;
    }
  CHECK(scatters == 1);
  CHECK(sums == 2);
}

TEST_CASE("a bucket ends before what depends on it") {
  const std::string rows = "weft: 1\nmesh: {dp: 2}\nshard: {w1: {dp: 1}, w2: {dp: 0}, w3: {dp: 0}}\ntransform:\n" +
                           bucket_step("fc2.sum, fc3.sum", "1MiB");
  const Planned made = plan_of(kBucketLayers, rows);
  CHECK(buckets_of(made.plan) == std::vector<std::string>{"bucket.0: fc2", "bucket.1: fc3"});
}

TEST_CASE("what has no place in a bucket") {
  CHECK(bucket_refusal("fc1").find("[bucket-no-collective]") != std::string::npos);
  CHECK(bucket_refusal("\"*.grad.sum\"").empty());
}

TEST_CASE("on one rank there are no buckets to run beside") {
  const auto made = prepare(
      kBucketLayers, training_on(1, "", bucket_step("\"*.grad.sum*\"", "1MiB") + kBeside, "{sgd: {rate: 0.1}}"), "");
  CHECK(made->ok());
}

// Contractions in the precision of the schedule: what is rounded, what is stored, and that the Plan computes it.
#include "ir/plan_walk.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

std::string model(const std::string& nodes) {
  return "<ir_version: 10, opset_import: [\"\" : 20]> m (float[1,8,6] x) => (float[1,8,6] y) "
         "<float[6,10] w = random(1, 1.0), float[10,6] v = random(2, 1.0)> { " +
         nodes + " }";
}

const std::string kLayers = "[fc] h = MatMul(x, w) r = Relu(h) [proj] y = MatMul(r, v)";

/// The bytes of the Plan's weights.
int64_t weight_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const Weight& weight : plan.weights) bytes += element_count(weight.type.dims()) * dtype_bytes(weight.type.dtype);
  return bytes;
}

/// The result of one run of the reference evaluation under a schedule.
Tensor result_of(const std::string& source, const std::string& yaml) {
  const auto made = prepare(source, yaml, "");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  return evaluate(*made->module, {seeded_tensor({DType::F32, shape_of(Dims{1, 8, 6}), {}}, 1)}).outputs[0];
}

double error_of(const Tensor& a, const Tensor& b) {
  double error = 0, largest = 0;
  for (int64_t i = 0; i < a.size(); ++i)
    error = std::max(error, std::fabs(a.real[i] - b.real[i])), largest = std::max(largest, std::fabs(b.real[i]));
  return error / largest;
}

std::string refusal(const std::string& yaml, Target target = {}) {
  const auto made = prepare(model(kLayers), yaml, "lower-precision", std::move(target));
  return made->ok() ? "" : made->diags.text();
}

}  // namespace

TEST_CASE("precision: weights take half the room, and every order of the Plan computes what the graph says") {
  for (const std::string precision : {"bf16", "fp16"}) {
    const Planned made = plan_of(model(kLayers), "weft: 1\nprecision: " + precision + "\n");
    check_orders(made, 4);
    CHECK(weight_bytes(made.plan) == 2 * (6 * 10 + 10 * 6));
  }
  const Planned sliced =
      plan_of(model(kLayers), "weft: 1\nmesh: {tp: 2}\nshard: {w: {tp: 1}, v: {tp: 0}}\nprecision: bf16\n");
  check_orders(sliced, 4);
  CHECK(weight_bytes(sliced.plan) == 2 * (6 * 10 + 10 * 6));
}

TEST_CASE("precision: results differ from fp32 by the rounding of operands alone") {
  const Tensor whole = result_of(model(kLayers), "");
  const double bf16 = error_of(result_of(model(kLayers), "weft: 1\nprecision: bf16\n"), whole);
  const double fp16 = error_of(result_of(model(kLayers), "weft: 1\nprecision: fp16\n"), whole);
  CHECK(bf16 > 1e-4);
  CHECK(bf16 < 1e-2);
  CHECK(fp16 > 1e-5);
  CHECK(fp16 < 2e-3);
  CHECK(error_of(result_of(model(kLayers), "weft: 1\nprecision: fp32\n"), whole) == 0);
}

TEST_CASE("precision: of named contractions; the last line that names one decides") {
  const auto bytes = [](const std::string& lines) {
    return weight_bytes(plan_of(model(kLayers), "weft: 1\nprecision: " + lines + "\n").plan);
  };
  CHECK(bytes("{fc: bf16}") == 2 * 60 + 4 * 60);
  CHECK(bytes("{\"*\": fp16, proj: fp32}") == 2 * 60 + 4 * 60);
  CHECK(bytes("{proj: fp32, \"*\": fp16}") == 4 * 60);
}

TEST_CASE("precision: filters are stored in 16 bits where kernels multiply pairs, not for minimal filtering") {
  const auto bytes = [](int64_t side, const std::string& attributes) {
    const std::string extents = std::to_string(side) + "," + std::to_string(side);
    return weight_bytes(plan_of("<ir_version: 10, opset_import: [\"\" : 20]> m (float[1,16," + extents +
                                    "] x) => (y) <float[16,16,3,3] w = random(1, 1.0)> { y = Conv <" + attributes +
                                    "> (x, w) }",
                                "weft: 1\nprecision: bf16\n")
                            .plan);
  };
  constexpr int64_t kFilters = 16 * 16 * 9;
  CHECK(bytes(21, "pads = [1, 1, 1, 1]") == 4 * kFilters);
  CHECK(bytes(14, "pads = [1, 1, 1, 1]") == 2 * kFilters);
  CHECK(bytes(56, "strides = [2, 2]") == 2 * kFilters);
}

TEST_CASE("precision: a product reads a weight that the model stores in 16 bits as it is stored") {
  const auto stored = [](const std::string& type, const std::string& nodes) {
    return "<ir_version: 10, opset_import: [\"\" : 20]> m (float[1,8,128] x) => (float[1,8,160] y) <" + type +
           "[128,160] w = random(1, 1.0)> { " + nodes + " }";
  };
  for (const std::string type : {"float16", "bfloat16"}) {
    const std::string product = stored(type, "f = Cast <to = 1> (w) y = MatMul(x, f)");
    const Planned made = plan_of(product);
    check_orders(made, 3);
    CHECK(weight_bytes(made.plan) == 2 * 128 * 160);
    CHECK(weight_bytes(plan_of(product, "weft: 1\nprecision: bf16\n").plan) == 2 * 128 * 160);
  }
  // Another reader wants floats.
  const Planned two = plan_of(stored("float16",
                                     "f = Cast <to = 1> (w) p = MatMul(x, f) s = ReduceSum <keepdims = 0> (f) "
                                     "y = Add(p, s)"));
  check_orders(two, 3);
  CHECK(weight_bytes(two.plan) == 4 * 128 * 160);
}

TEST_CASE("precision: an input that is read as it is, and through views before it") {
  const std::string head = "<ir_version: 10, opset_import: [\"\" : 20]> m (float[4,4] x) => (float[4,4] y) { ";
  check_orders(plan_of(head + "t = Transpose(x) y = MatMul(x, t) }", "weft: 1\nprecision: bf16\n"), 3);
  check_orders(plan_of(head + "t = Transpose(x) u = Transpose(x) a = MatMul(x, u) b = MatMul(t, a) y = Add(a, b) }",
                       "weft: 1\nprecision: bf16\n"),
               3);
}

TEST_CASE("precision: stages of a pipeline round what they read") {
  const Planned made = plan_of(
      "<ir_version: 10, opset_import: [\"\" : 20]> m (float[4,6] x) => (float[4,6] y) <float[6,6] w = random(1, 1.0), "
      "float[6,6] v = random(2, 1.0)> { [a] h = MatMul(x, w) [b] y = MatMul(h, v) }",
      "weft: 1\nplaces: {p: {ranks: [0], mesh: {d: 1}}, q: {ranks: [1], mesh: {d: 1}}}\nprecision: bf16\n"
      "pipeline: {stages: {s: {place: p, nodes: [a]}, t: {place: q, nodes: [b]}}, micro_batches: 2, order: gpipe}\n");
  check_orders(made, 3);
  CHECK(weight_bytes(made.plan) == 2 * 2 * 36);
}

TEST_CASE("precision: in the body of a loop") {
  const std::string loop =
      "<ir_version: 10, opset_import: [\"\" : 20]> m (float[1,8,6] x) => (float[1,8,6] y) "
      "<int64 n = {3}, bool yes = {1}, float[6,6] w = random(1, 0.5)> { y = Loop (n, yes, x) <body = b (int64 i, bool "
      "c, "
      "float[1,8,6] h) => (bool d, float[1,8,6] r) { d = Identity(c) p = MatMul(h, w) r = Tanh(p) }> }";
  check_orders(plan_of(loop, "weft: 1\nprecision: bf16\n"), 4);
  const double error = error_of(result_of(loop, "weft: 1\nprecision: bf16\n"), result_of(loop, ""));
  CHECK(error > 1e-5);
  CHECK(error < 1e-2);
}

TEST_CASE("precision: attention still runs in blocks of rows") {
  const Planned made = plan_of(
      "<ir_version: 10, opset_import: [\"\" : 20]> m (float[8,128,4] q, float[8,4,256] k, float[8,256,4] v) => "
      "(float[8,128,4] y) { s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v) }",
      "weft: 1\nprecision: bf16\n");
  check_orders(made, 2);
  bool has_chain = false;
  for (const Block& block : made.plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      if (const auto* loop = std::get_if<LoopStep>(&step.what)) has_chain |= loop->is_chain();
    });
  CHECK(has_chain);
}

TEST_CASE("precision: what is refused") {
  CHECK(refusal("weft: 1\nprecision: bf17\n").find("bf17") != std::string::npos);
  CHECK(refusal("weft: 1\nprecision: {fd: bf16}\n").find("fd") != std::string::npos);
  CHECK(refusal("weft: 1\nprecision: {r: bf16}\n").find("precision-no-contraction") != std::string::npos);
  CHECK(refusal("weft: 1\nprecision: bf16\n", cuda_target({"sm_90"})).find("precision-unsupported") !=
        std::string::npos);
}

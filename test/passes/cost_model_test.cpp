// The cost model's counts of steps: operations, bytes and messages, against numbers computed by hand.
#include "passes/cost/cost_model.h"

#include "passes/cost/strategy_rate.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// Every ceiling is one a second, no step or meeting takes time by itself, a function is 50 operations.
Ceilings ones() { return {"a test", 1, 1, 1, 1, 1, 0, 0, 50, 1, 1}; }

/// The work of the step of that name, inside loops too; on rank 0.
Work work_of(const std::string& model, const std::string& yaml, const std::string& name) {
  const Planned made = plan_of(model, yaml);
  const CostModel costs(made.plan, *made.scheduled->module, ones());
  const std::function<const Step*(const std::vector<Step>&)> find = [&](const std::vector<Step>& steps) -> const Step* {
    for (const Step& step : steps) {
      const auto* loop = std::get_if<ForStep>(&step.what);
      if (const Step* found = loop ? find(loop->body) : step.name == name ? &step : nullptr) return found;
    }
    return nullptr;
  };
  const Step* found = find(made.plan.blocks[0].steps);
  INFO(print_plan(made.plan));
  REQUIRE(found);
  return costs.of(*found, 0).work;
}

std::string model(const std::string& types, const std::string& body) {
  return "<ir_version: 10, opset_import: [\"\" : 20]>\nm " + types + " {" + body + "}";
}

}  // namespace

TEST_CASE("a product counts two operations a point, and what is fused with it one") {
  const Work fc = work_of(kMlp, "", "fc");
  CHECK(fc.f32 == 2 * 16 * 8 * 16 + 2 * 16 * 16);  // bias and Relu
  CHECK(fc.bytes == 4 * (16 * 8 + 8 * 16 + 16 + 16 * 16));
  CHECK(fc.link_bytes == 0);
  CHECK(fc.meetings == 0);
}

TEST_CASE("a rank's share of a sliced product, its chunk's share of an overlapped one") {
  CHECK(work_of(kMlp, kTp2, "fc").f32 == (2 * 16 * 8 * 16 + 2 * 16 * 16) / 2);
  CHECK(work_of(kMlp, kTp2, "proj").f32 == 2 * 16 * 8 * 8);
  CHECK(work_of(kMlp, kTp2Streams, "proj").f32 == 2 * 16 * 8 * 8 / 4);
}

TEST_CASE("what crosses the link") {
  const Work sum = work_of(kMlp, kTp2, "proj.sum");  // f32[16, 8] on two ranks
  CHECK(sum.link_bytes == 2 * 512 / 2);
  CHECK(sum.meetings == 1);
  const Work far = work_of(kMlp, kTp2Fused, "far");  // half of it comes by the scatter, half by the gather
  CHECK(far.link_bytes == 256 + 256);
  CHECK(far.meetings == 1);
  CHECK(bytes_sent(OpKind::AllGather, 100, 400, 4) == 300);
  CHECK(bytes_sent(OpKind::ShardSlice, 400, 100, 4) == 0);
}

TEST_CASE("windows: the loops of the result and of the window, not those of the operand") {
  const std::string conv = model("(float[1,2,4,4] x, float[3,2,3,3] w) => (float[1,3,4,4] y)",
                                 "[conv] y = Conv <pads = [1, 1, 1, 1]> (x, w)");
  CHECK(work_of(conv, "", "conv").f32 == 2 * (3 * 4 * 4) * (2 * 3 * 3));
  const std::string pool = model("(float[1,2,4,4] x) => (float[1,2,2,2] y)",
                                 "[pool] y = MaxPool <kernel_shape = [3, 2], strides = [1, 2]> (x)");
  CHECK(work_of(pool, "", "pool").f32 == 2 * (2 * 2 * 2) * (3 * 2));
}

TEST_CASE("a function counts more than an addition; integers and doubles stand apart") {
  CHECK(work_of(model("(float[8] x) => (float[8] y)", "[e] y = Exp(x)"), "", "e").f32 == 8 * 50);
  CHECK(work_of(model("(float[8] x) => (float[8] y)", "[e] y = Neg(x)"), "", "e").f32 == 8);
  const Work doubles = work_of(model("(double[8] x) => (double[8] y)", "[e] y = Neg(x)"), "", "e");
  CHECK(doubles.f32 == 0);
  CHECK(doubles.f64 == 8);
}

TEST_CASE("of a table that is looked up in, only what is found moves") {
  const std::string lookup = model("(float[1000,4] table, int64[3] at) => (float[3,4] y)", "[g] y = Gather(table, at)");
  CHECK(work_of(lookup, "", "g").bytes == 4 * (3 * 4) + 8 * 3 + 4 * (3 * 4));
}

TEST_CASE("of a table in panels each element that is looked up has a cache line of its own") {
  const std::string tied = model("(int64[2] at) => (float[2,9000] y) <float[9000,16] table = random(1, 0.5)>",
                                 "[g] rows = Gather(table, at) [a] r = Tanh(rows) [t] turned = Transpose <perm = [1, "
                                 "0]> (table) [p] y = MatMul(r, turned)");
  CHECK(work_of(tied, "", "a").bytes == 2 * 16 * 64 + 2 * 8 + 2 * 16 * 4);
}

TEST_CASE("the slowest ceiling bounds a step") {
  Ceilings c{"a test", 100, 50, 200, 10, 5, 3, 1, 1};
  Work work;
  work.f32 = 1000;
  CHECK(cost_of(work, c).seconds == doctest::Approx(11));
  CHECK(cost_of(work, c).bound == Bound::Compute);
  work.bytes = 200;
  CHECK(cost_of(work, c).seconds == doctest::Approx(21));
  CHECK(cost_of(work, c).bound == Bound::Memory);
  work.link_bytes = 200;
  work.meetings = 1;
  CHECK(cost_of(work, c).seconds == doctest::Approx(44));
  CHECK(cost_of(work, c).bound == Bound::Link);
  CHECK(cost_of({.meetings = 1}, c).bound == Bound::Latency);
  CHECK(cost_of({}, c).bound == Bound::Step);
}

TEST_CASE("a target's row: the newest arch, and the nearest older kind of what has none") {
  CHECK(ceilings_of(host_target({"x86-64-v4"})).machine == "one core with AVX-512");
  CHECK(ceilings_of(host_target({"x86-64-v2"})).machine == "one core with SSE2");
  CHECK(ceilings_of(host_target({"aarch64"})).machine == "one core with NEON");
  CHECK(ceilings_of(cuda_target({"sm_80", "sm_90"})).machine == "H100 SXM");
  CHECK(ceilings_of(cuda_target({"sm_86"})).machine == "A100 SXM 80 GB");
  CHECK(ceilings_of(cuda_target({"sm_120"})).machine == "B200 SXM");
}

TEST_CASE("ceilings by name") {
  Ceilings c = ones();
  for (const std::string& name : ceiling_names()) {
    REQUIRE(find_ceiling(c, name));
    *find_ceiling(c, name) = 7;
  }
  CHECK(c.link == 7);
  CHECK(c.latency == 7);
  CHECK_FALSE(find_ceiling(c, "speed"));
}

TEST_CASE("elements that are computed one by one count cycles instead") {
  const Work power = work_of(model("(float[4] x, float[4] p) => (float[4] y)", "y = Pow(x, p)"), "", "y");
  CHECK(power.f32 == 0);
  CHECK(power.scalar == 4 * 25);
  CHECK(cost_of(power, ones()).seconds == doctest::Approx(4 * 25));
}

TEST_CASE("a function counts its operations, a test of an element none of them") {
  const std::string type = "(float[4] x) => (float[4] y)";
  CHECK(work_of(model(type, "y = Tanh(x)"), "", "y").f32 == 4 * 50);
  CHECK(work_of(model("(float[4] x) => (bool[4] y)", "y = IsInf(x)"), "", "y").f32 == 4);
  CHECK(work_of(model(type, "y = Sqrt(x)"), "", "y").f32 == 4);
}

TEST_CASE("a strategy has its part of the machine's rate") {
  const auto rate = [](const std::string& strategy) {
    return work_of(kMlp, "weft: 1\nkernels: {fc: {strategy: " + strategy + "}}\n", "fc").rate;
  };
  CHECK(rate("packed-product") == 1);
  CHECK(rate("strided-product") == doctest::Approx(0.9));
  CHECK(rate("plain-loops") == doctest::Approx(1.0 / (4 * Target{}.vector_floats)));
  Work work;
  work.f32 = 6, work.rate = 0.5;
  CHECK(cost_of(work, ones()).seconds == 12);
}

TEST_CASE("on a device larger tiles are faster, and plain loops have no tensor cores") {
  const Target device = cuda_target({"sm_90"});
  const Tile large{128, 128, 8, 8, 64, 32}, small{16, 64, 4, 2, 16, 16};
  const auto rate = [&](const Strategy& strategy, DType dtype) { return strategy_rate(strategy, device, dtype).part; };
  CHECK(rate(TiledProduct{large}, DType::F32) == 1);
  CHECK(rate(TiledProduct{small}, DType::F32) == doctest::Approx(1.0 / 3));
  CHECK(rate(TiledConvolution{large}, DType::F16) > rate(TiledConvolution{small}, DType::F16));
  CHECK(strategy_rate(LibraryProduct{}, device, DType::F16).tensor_cores);
  CHECK_FALSE(strategy_rate(PlainLoops{}, device, DType::F16).tensor_cores);

  const auto made = prepare(model("(float16[64,64] a, float16[64,64] b) => (float16[64,64] y)", "[p] y = MatMul(a, b)"),
                            "", "", device);
  std::vector<PlanningReport> reports;
  const KernelPin pin{"p", "plain-loops", {}, {}, {}, {}};
  const auto plan = make_plan(*made->module, device, made->diags, {{}, {pin}}, reports);
  REQUIRE(plan);
  const Work work = CostModel(*plan, *made->module, ones()).of(plan->blocks[0].steps[0], 0).work;
  CHECK(work.f16 == 0);
  CHECK(work.f32 == 2 * 64 * 64 * 64);
}

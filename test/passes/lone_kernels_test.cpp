// Kernels by themselves: Plans of launches of one kernel in several ways. The proof accepts them where inputs are
// row-major, as ports are; others are rows of numbers, whatever their kernels take them for.
#include "passes/plan/lone_kernels.h"

#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

struct Prepared {
  std::unique_ptr<Scheduled> scheduled;
  Plan plan;

  Plan with(const std::string& name, const std::string& strategy) {
    std::vector<KernelPin> pins = scheduled->schedule.kernels;
    pins.push_back({name, strategy, {}, {}, {}, {}});
    const auto made = plan_kernels(*scheduled->module, scheduled->target, scheduled->diags, pins);
    INFO(scheduled->diags.text());
    REQUIRE(made);
    return *made;
  }
  Plan lone(const std::vector<LoneKernel>& kernels) { return lone_plan(*scheduled->module, kernels, scheduled->diags); }
};

Prepared prepared(const std::string& model, const std::string& yaml = "") {
  Prepared made{prepare(model, yaml, ""), {}};
  INFO(made.scheduled->diags.text());
  REQUIRE(made.scheduled->ok());
  made.plan = *plan_kernels(*made.scheduled->module, made.scheduled->target, made.scheduled->diags,
                            made.scheduled->schedule.kernels);
  return made;
}

const char* const kConvolutions = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,16,12,12] x) => (float[1,16,12,12] y) <float[16,16,3,3] w = random(1, 0.5), float[16,16,3,3] v = random(2, 0.5)>
{ s = Sigmoid(x)  [first] a = Conv<pads = [1, 1, 1, 1]>(s, w)  [second] b = Conv<pads = [1, 1, 1, 1]>(a, v)  y = Tanh(b) })";

}  // namespace

TEST_CASE("lone kernels: launches of one kernel, each with its strategy, storage and weight") {
  Prepared made = prepared(kConvolutions);
  const std::string kernel = made.plan.kernels[1].name;
  CHECK(made.plan.kernels.size() == 3);
  const Plan unfolded = made.with(kernel, "unfolded-convolution"), direct = made.with(kernel, "direct-convolution");
  CHECK(step_of_kernel(made.plan, kernel) == "first");
  const Plan lone = made.lone({{&made.plan, "first"}, {&unfolded, "first"}, {&direct, "first"}});
  REQUIRE(lone.blocks.size() == 1);
  REQUIRE(lone.blocks[0].steps.size() == 3);
  CHECK(lone.blocks[0].steps[1].name == lone_step_name(1));
  CHECK(std::string(strategy_name(lone.kernels[0].strategy)) == "winograd-convolution");
  CHECK(std::string(strategy_name(lone.kernels[1].strategy)) == "unfolded-convolution");
  CHECK(lone.kernels[0].parameters[0].storage == made.plan.kernels[1].parameters[0].storage);
  CHECK(lone.kernels[1].parameters[0].storage.is_row_major());
  CHECK(lone.weights.size() == 3);
  // The direct and the minimal strategy read the same layout, so they share one input; the unfolded one reads another.
  CHECK(lone.inputs.size() == 2);
  CHECK(lone.outputs.empty());
}

TEST_CASE("lone kernels: a step is found where its kernel has another name, because operands lie in another way") {
  Prepared made = prepared(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,32,10,10] x) => (float[1,32,10,10] y)
<float[32,32,1,1] u = random(1, 0.2), float[32,32,1,1] v = random(2, 0.2), float[32,32,1,1] w = random(3, 0.2)>
{ [one] a = Conv(x, u)  [two] b = Conv(a, v)  [three] y = Conv(b, w) })");
  const auto kernel_of = [](const Plan& plan, size_t step) {
    return plan.kernel(std::get<LaunchStep>(plan.blocks[0].steps[step].what).kernel).name;
  };
  const Plan points = made.with("one", "point-convolution");
  REQUIRE(kernel_of(made.plan, 1) != kernel_of(points, 1));
  CHECK(step_of_kernel(made.plan, kernel_of(made.plan, 1)) == "two");
  CHECK(made.lone({{&made.plan, "two"}, {&points, "two"}}).kernels.size() == 2);
}

TEST_CASE("lone kernels: on several ranks each has its own") {
  const std::string model = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[8,16] x) => (float[8,33] y) <float[16,33] w = random(1, 0.5)> { [mm] y = MatMul(x, w) })";
  Prepared made = prepared(model, "weft: 1\nmesh: {tp: 2}\nshard: {w: {tp: 1}}\n");
  const Plan strided = made.with("mm", "strided-product");
  CHECK(lone_refusal({&made.plan, "mm"}).empty());
  CHECK(prove_plan(made.lone({{&made.plan, "mm"}, {&strided, "mm"}})).empty());
}

TEST_CASE("lone kernels: not those that meet others, or whose length only a run knows") {
  const std::string open = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[n,16] x) => (float[n,33] y) <float[16,33] w = random(1, 0.5)> { [mm] y = MatMul(x, w) })";
  const Prepared rows = prepared(open, "weft: 1\ndims: {n: \"<=8\"}\n"), convolutions = prepared(kConvolutions);
  CHECK(lone_refusal({&rows.plan, "mm"}) == "it has a run-time length");
  CHECK(lone_refusal({&convolutions.plan, "none"}) == "it is launched in loops or branches only");
}

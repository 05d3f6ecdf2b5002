// Operands of Concats that lie in the results.
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// An image of 3 channels and convolutions of it with 16, 32 and 5 filters.
std::string model(const std::string& nodes, const std::string& y = "float[1,4,12,12] y") {
  return "<ir_version: 8, opset_import: [\"\" : 20]> m (float[1,3,12,12] x) => (" + y + R"()
<float[16,3,3,3] f16 = random(1, 0.5), float[32,3,3,3] f32 = random(2, 0.5), float[5,3,3,3] f5 = random(3, 0.5),
 float[4,48,1,1] last48 = random(4, 0.2), float[4,21,1,1] last21 = random(5, 0.2), float[4,64,1,1] last64 = random(6, 0.2),
 float[16,16,3,3] inner = random(7, 0.2), float[32,16,2,2] up = random(8, 0.2), int64[2] halves = {16, 16},
 float[1,16,12,12] constant = random(9, 1.0)>
{ a = Conv <pads = [1, 1, 1, 1]> (x, f16)  b = Conv <pads = [1, 1, 1, 1]> (x, f32)
  c = Conv <pads = [1, 1, 1, 1]> (x, f5) )" +
         nodes + "}";
}

/// "a 0 .. 15; b 16 .. 47": the steps that make the buffer, and which stripes of it. The Plan
/// computes what its model does, in whatever order its steps come.
std::string makers(const std::string& model, const std::string& buffer) {
  const Planned made = plan_of(model);
  check_orders(made, 4);
  std::vector<std::string> found;
  for (const Step& step : made.plan.blocks[0].steps)
    for (const Access& access : step.accesses)
      if (access.write && made.plan.buffer(access.buffer).name == buffer)
        found.push_back(step.name + (access.stripe ? format(" {} .. {}", access.stripe->start, access.stripe->end() - 1)
                                                   : std::string()));
  return join(found, "; ");
}

}  // namespace

TEST_CASE("join-operands: what convolutions make lies in the result, and the Concat is no step") {
  CHECK(makers(model("[both] s = Concat <axis = 1> (a, b) [last] y = Conv(s, last48)"), "s") ==
        "a 0 .. 15; b 16 .. 47");
}

TEST_CASE("join-operands: element-wise kernels and pools put their results there too") {
  CHECK(makers(model("[pool] p = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (b) [tanh] t = Tanh(x) "
                     "[sine] u = Sin(a) [both] s = Concat <axis = 1> (p, u) [last] y = Conv(s, last48)"),
               "s") == "a 32 .. 47; pool 0 .. 31");
}

TEST_CASE("join-operands: slices that are all of a value") {
  CHECK(makers(model("h, k = Split <axis = 1> (b, halves) [inner] m = Conv <pads = [1, 1, 1, 1]> (a, inner) "
                     "[both] s = Concat <axis = 1> (m, h, k) [last] y = Conv(s, last48)"),
               "s") == "b 16 .. 47; inner 0 .. 15");
}

TEST_CASE("join-operands: a result that is an operand itself") {
  CHECK(makers(model("[one] t = Concat <axis = 1> (a, b) [inner] m = Conv <pads = [1, 1, 1, 1]> (a, inner) "
                     "[both] s = Concat <axis = 1> (t, m) [last] y = Conv(s, last64)"),
               "s") == "b 16 .. 47; one 0 .. 15; inner 48 .. 63");
}

TEST_CASE("join-operands: what cannot lie there is copied, if it is one run of operands") {
  CHECK(makers(model("[both] s = Concat <axis = 1> (a, c) [last] y = Conv(s, last21)"), "s") ==
        "a 0 .. 15; both 16 .. 20");
  CHECK(makers(model("[both] s = Concat <axis = 1> (constant, b) [last] y = Conv(s, last48)"), "s") ==
        "b 16 .. 47; both 0 .. 15");
}

TEST_CASE("join-operands: the phases of a ConvTranspose lie with their channels innermost") {
  const std::string nodes =
      "[less] p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (b) [up] u = ConvTranspose <strides = [2, 2]> (p, "
      "up) "
      "[both] s = Concat <axis = 1> (b, u) [last] y = Conv(s, last48)";
  CHECK(makers(model(nodes), "s") == "up 32 .. 47; both 0 .. 31");
}

TEST_CASE("counter-cases: operands that others read, results that the model gives, runs that are short") {
  CHECK(makers(model("[pool] p = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (a) "
                     "[all] s = Concat <axis = 1> (a, p, b) [last] y = Conv(s, last64)"),
               "s") == "b 32 .. 63; pool 16 .. 31; all 0 .. 15");
  CHECK(makers(model("[both] s = Concat <axis = 1> (a, a, a) [last] y = Conv(s, last48)"), "s") == "both");
  CHECK(makers(model("[both] y = Concat <axis = 1> (a, b)", "float[1,48,12,12] y"), "y") == "both");
  CHECK(makers(model("d = Sin(c) e = Cos(c) [both] s = Concat <axis = 1> (c, a) [last] y = Conv(s, last21)"), "s") ==
        "a 5 .. 20; both 0 .. 4");
}

TEST_CASE("counter-cases: cropped operands, and what another operand is made of") {
  const auto products = [](const std::string& nodes, const std::string& y) {
    return makers("<ir_version: 8, opset_import: [\"\" : 20]> m (float[40,32] x) => (" + y +
                      R"() <float[32,32] u = random(1, 0.5),
float[64,32] w = random(2, 0.5), int64[1] zero = {0}, int64[1] one = {1}, int64[1] thirty = {30}, int64[1] half = {16},
float[30,32] x2 = random(3, 1.0), float[48,32] v = random(4, 0.5)> { [one] a = MatMul(x, u) )" +
                      nodes + "}",
                  "s");
  };
  CHECK(
      products("c = Slice(a, zero, thirty, zero) [sine] b = Sin(x2) [both] s = Concat<axis = 1>(c, b) y = MatMul(s, w)",
               "float[30,32] y") == "both");
  CHECK(products("c = Slice(a, zero, half, one) [both] s = Concat<axis = 1>(c, a) y = MatMul(s, v)",
                 "float[40,32] y") == "both");
  CHECK(products("t = Slice(a, zero, thirty, zero) [both] s = Concat<axis = 0>(a, t) y = MatMul(s, u)",
                 "float[70,32] y") == "both");
}

TEST_CASE("join-operands: stripes that are elsewhere, miss elements or are not what the step says") {
  const Planned made = plan_of(model("[both] s = Concat <axis = 1> (a, b) [last] y = Conv(s, last48)"));
  REQUIRE(prove_plan(made.plan).empty());
  const auto spoilt = [&](const auto& change) {
    Plan plan = made.plan;
    for (Step& step : plan.blocks[0].steps)
      for (Access& access : step.accesses)
        if (access.stripe && access.stripe->start == 16)
          change(access, plan.kernels[std::get<LaunchStep>(step.what).kernel.index].parameters.back());
    const std::vector<std::string> wrong = prove_plan(plan);
    return wrong.empty() ? std::string() : wrong[0];
  };
  CHECK(spoilt([](Access& access, Parameter&) { access.stripe->start = 8; }) ==
        "'b' touches another stripe of 's' than it says");
  CHECK(spoilt([](Access& access, Parameter& parameter) {
          access.stripe->start = parameter.storage.stripe->start = 17;
        }) == "'b' takes a stripe of 's' that it does not have");
  CHECK(spoilt([](Access& access, Parameter& parameter) {
          access.stripe->start = parameter.storage.stripe->start = 8;
        }) == "'last' on rank 0 reads 's' before it is written");
}

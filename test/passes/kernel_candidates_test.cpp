// Candidates of a tuner for kernels: legal strategies that are not hopeless, for the costliest kernels first.
#include "passes/plan/kernel_candidates.h"

#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// "big: strided-product; small: ..." under a schedule.
std::string candidates(const std::string& model, const std::string& yaml, const Target& target = {},
                       Reach reach = Reach::Promising) {
  const auto made = prepare(model, yaml, "", target);
  INFO(made->diags.text());
  REQUIRE(made->ok());
  std::vector<PlanningReport> reports;
  const auto plan = make_plan(*made->module, target, made->diags, {{}, made->schedule.kernels}, reports);
  REQUIRE(plan);
  std::vector<std::string> texts;
  const CostModel costs(*plan, *made->module, ceilings_of(target));
  for (const KernelCandidates& kernel : kernel_candidates(*plan, *made->module, costs, reach)) {
    std::vector<std::string> pins;
    for (const KernelPin& pin : kernel.pins) pins.push_back(strategy_text(pin));
    texts.push_back(kernel.kernel + ": " + join(pins, ", "));
  }
  return join(texts, "; ");
}

const char* const kTwoProducts = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[64,64] x) => (float[64,8] y) <float[64,8] v = random(1, 0.5), float[64,64] w = random(2, 0.5)>
{ [soft] s = Softmax(x)  [big] b = MatMul(s, w)  [small] y = MatMul(b, v) })";

}  // namespace

TEST_CASE("kernel candidates: the costliest first, without plain loops and what has one strategy") {
  CHECK(candidates(kTwoProducts, "") ==
        "big: packed-product, one thread, strided-product; soft: rows, one thread; small: packed-product, one thread, "
        "strided-product");
}

TEST_CASE("kernel candidates: a pin names one kernel, also where several compute a node") {
  const std::string convolution = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,16,6,6] x) => (float[1,8,4,4] y) <float[8,16,3,3] w = random(1, 0.5), float[8] b = random(2, 0.5)>
{ [same] y = Conv(x, w, b) })";
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[64,64] x) => (float[64,64] y) <float[64,64] w = random(1, 0.5)>
{ ["a.b"] a = MatMul(x, w)  ["a_b"] y = Softmax(a) })";
  const auto names = [](const std::string& model, const std::string& yaml) {
    const auto made = prepare(model, yaml, "");
    REQUIRE(made->ok());
    const auto plan = make_plan(*made->module, made->target, made->diags);
    REQUIRE(plan);
    std::vector<std::string> pinned;
    for (const Kernel& kernel : plan->kernels) pinned.push_back(kernel.name + " by " + kernel.pin_name);
    return join(pinned, ", ");
  };
  CHECK(names(convolution, "weft: 1\nmesh: {tp: 2}\nshard: {w: {tp: 1}}\n") == "same by same/Conv, same_2 by same_2");
  CHECK(names(text, "") == "a_b by a.b, a_b_2 by a_b_2");
}

TEST_CASE("kernel candidates: kernels that one name means are asked for once") {
  const std::string text = candidates(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[64,64] x) => (float[64,64] y)
<float[64,64] u = random(1, 0.5), float[64,64] v = random(2, 0.5), float[128,64] w = random(3, 0.5)>
{ [one] a = MatMul(x, u)  [other] b = MatMul(x, v)  [both] c = Concat<axis = 1>(a, b)  [last] y = MatMul(c, w) })",
                                      "");
  CHECK(text.find("last: ") != std::string::npos);
  CHECK((text.find("one: ") != std::string::npos) + (text.find("other: ") != std::string::npos) == 1);
}

TEST_CASE("kernel candidates: what the schedule pins stays") {
  CHECK(candidates(kTwoProducts, "weft: 1\nkernels: {big: {strategy: strided-product}}\n") ==
        "soft: rows, one thread; small: packed-product, one thread, strided-product");
}

TEST_CASE("kernel candidates: strategies that take many times longer are left out") {
  const std::string planes = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,1,9,9] x, float[16,1,3,3] w) => (float[1,16,7,7] y) { [plane] y = Conv(x, w) })";
  CHECK(candidates(planes, "") == "plane: direct-convolution, one thread, unfolded-convolution 4 panels");
  CHECK(candidates(planes, "weft: 1\n", cuda_target({"sm_90"})).find("128x128") != std::string::npos);
  const std::string filters = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,1,9,9] x) => (float[1,16,7,7] y) <float[16,1,3,3] w = random(1, 0.5)> { [unfolded] y = Conv(x, w) })";
  CHECK(candidates(filters, "") == "unfolded: direct-convolution, one thread, unfolded-convolution 4 panels");
}

TEST_CASE("kernel candidates: all that is legal, by all threads and by one") {
  const std::string points = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,16,64,64] x) => (float[1,16,64,64] y) <float[16,16,1,1] w = random(1, 0.5)> { [conv] y = Conv(x, w) })";
  CHECK(candidates(points, "", {}, Reach::All) ==
        "conv: direct-convolution, direct-convolution, one thread, point-convolution, one thread, "
        "unfolded-convolution 256 panels, unfolded-convolution 256 panels, one thread, unfolded-convolution 64 panels, "
        "unfolded-convolution 64 panels, one thread, unfolded-convolution 128 panels, unfolded-convolution 128 panels, "
        "one thread");
}

TEST_CASE("kernel candidates: no convolution that multiplies channels which a rank does not have") {
  const std::string channels = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,5,9,9] x) => (float[1,16,9,9] y) <float[16,5,3,3] w = random(1, 0.5)>
{ [conv] y = Conv<pads = [1, 1, 1, 1]>(x, w) })";
  CHECK(candidates(channels, "weft: 1\nmesh: {tp: 5}\nshard: {w: {tp: 1}}\n") ==
        "conv: direct-convolution, one thread, unfolded-convolution 6 panels");
  CHECK(candidates(channels, "weft: 1\nmesh: {tp: 2}\nshard: {w: {tp: 1}}\n") ==
        "conv: unfolded-convolution 6 panels, one thread");
}

TEST_CASE("kernel candidates: a state that grows is appended to") {
  const std::string cache = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[2,past,4] past, float[2,1,4] k) => (float[2,total,4] present) { present = Concat<axis = 1>(past, k) })";
  CHECK(candidates(cache, "weft: 1\ndims: {past: \"<=8\"}\nstate: {past: present}\n", cuda_target({"sm_90"})) == "");
}

TEST_CASE("kernel candidates: in the one kernel of a loop over chunks, tiles that fit it") {
  const std::string overlapped = R"(weft: 1
mesh: {tp: 2}
shard: {fc_weight: {tp: 1}, proj_weight: {tp: 0}}
transform:
  - overlap: {ops: [proj, proj.sum], chunks: 4, dim: 0, mechanism: signal}
)";
  const std::string found = candidates(kMlp, overlapped, cuda_target({"sm_90"}));
  CHECK(found.find("proj: tiled-product 64x64") != std::string::npos);
  CHECK(found.find("proj: tiled-product 128x128") == std::string::npos);
}

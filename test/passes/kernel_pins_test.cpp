// Strategies that a schedule pins: which kernels a name means, what they get, and where a pin is refused.
#include "passes/plan/kernel_pins.h"

#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

const char* const kLayers = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4,8] x) => (float[4,8] y)
<float[8,8] w0 = random(1, 0.5), float[8,8] w1 = random(2, 0.5), float[8,8] w2 = random(3, 0.5)>
{ ["h.0.fc"] a = MatMul(x, w0)  ["h.0.act"] b = Relu(a)  ["h.1.fc"] c = MatMul(b, w1)  ["h.1.act"] d = Relu(c)
  ["head"] y = MatMul(d, w2) })";

std::string overlapped(const std::string& pin) {
  return R"(weft: 1
mesh: {tp: 2}
shard: {fc_weight: {tp: 1}, proj_weight: {tp: 0}}
transform:
  - overlap: {ops: [proj, proj.sum], chunks: 4, dim: 0, mechanism: signal}
kernels: {proj: )" +
         pin + "}\n";
}

/// "h_fc: strided-product; head: packed-product panels 16", or the ids of what was reported.
std::string strategies(const std::string& model, const std::string& yaml, const Target& target = {}) {
  const auto made = prepare(model, yaml, "", target);
  INFO(made->diags.text());
  REQUIRE(made->ok());
  std::vector<PlanningReport> reports;
  const auto plan = make_plan(*made->module, target, made->diags, {{}, made->schedule.kernels}, reports);
  std::vector<std::string> texts;
  if (!plan)
    for (const Diagnostic& each : made->diags.all()) texts.push_back(each.id + ": " + each.message);
  for (size_t k = 0; plan && k < plan->kernels.size(); ++k) {
    const Kernel& kernel = plan->kernels[k];
    texts.push_back(kernel.name + ": " + strategy_text(kernel.in_chunks.value_or(kernel.strategy)) +
                    (kernel.pin.line > 0 ? " (line " + std::to_string(kernel.pin.line) + ")" : ""));
  }
  return join(texts, "; ");
}

std::string layers(const std::string& name) {
  return strategies(kLayers, "weft: 1\nkernels:\n  " + name + ": {strategy: strided-product}\n");
}

}  // namespace

TEST_CASE("pins: a kernel, a node or value of any layer that shares it, a pattern") {
  const std::string pinned = "h_fc: strided-product (line 3); head: packed-product panels 16";
  CHECK(layers("h_fc") == pinned);
  CHECK(layers("h.1.fc") == pinned);
  CHECK(layers("h.0.act") == pinned);
  CHECK(layers("d") == pinned);
  CHECK(layers("\"h.{l}.fc\"") == pinned);
  CHECK(layers("y") == "h_fc: packed-product panels 16; head: strided-product (line 3)");
  CHECK(layers("\"h*\"") == "h_fc: strided-product (line 3); head: strided-product (line 3)");
  CHECK(layers("h.2.fc").starts_with("kernel-unmatched"));
  CHECK(strategies(kLayers, "weft: 1\nkernels: {head: {strategy: append}}\n") ==
        "kernel-strategy: kernel 'head' cannot be computed by append: it is for states, and chosen where they are "
        "updated "
        "in place");
}

TEST_CASE("pins: values and parts of nodes inside a kernel, of any layer that shares it") {
  CHECK(layers("a") == layers("h_fc"));
  CHECK(layers("c") == layers("h_fc"));
  CHECK(layers("h.1.fd") ==
        "kernel-unmatched: 'h.1.fd' is no kernel, and no node or value that one computes, did you "
        "mean 'h.1.fc'?");
  const std::string model = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4,8] x) => (float[4,8] y) { [sm] y = Softmax(x) })";
  CHECK(strategies(model, "weft: 1\nkernels: {sm/ReduceMax: {strategy: plain-loops}}\n") == "sm: plain-loops (line 2)");
}

TEST_CASE("pins: of the kernels of one node the one that can have the strategy, else none is meant") {
  const std::string convolution = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,16,6,6] x) => (float[1,8,4,4] y) <float[8,16,3,3] w = random(1, 0.5), float[8] b = random(2, 0.5)>
{ [same] y = Conv(x, w, b) })";
  const auto sliced = [&](const std::string& name, const std::string& strategy) {
    return strategies(convolution, "weft: 1\nmesh: {tp: 2}\nshard: {w: {tp: 1}}\nkernels: {" + name +
                                       ": {strategy: " + strategy + "}}\n");
  };
  CHECK(sliced("same", "unfolded-convolution") == "same: unfolded-convolution 1 panels (line 4); same_2: elementwise");
  CHECK(sliced("\"{s}ame\"", "unfolded-convolution") == sliced("same", "unfolded-convolution"));
  CHECK(sliced("same_2", "scan").starts_with("kernel-strategy: kernel 'same_2'"));
  CHECK(sliced("same", "scan") ==
        "kernel-ambiguous: several kernels compute 'same': 'same' (Conv; as 'same/Conv'), 'same_2' (Reshape, Add); "
        "name one of "
        "them");
}

TEST_CASE("pins: parts of a node in several kernels by their own names") {
  const auto softmax = [](const std::string& name) {
    return strategies(
        R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4,8] x) => (float[4,8] y) { [soft] y = Softmax(x) })",
        "weft: 1\nmesh: {tp: 2}\nshard: {x: {tp: 1}}\nkernels: {" + name + ": {strategy: plain-loops}}\n");
  };
  CHECK(softmax("soft") ==
        "kernel-ambiguous: several kernels compute 'soft': 'soft' (ReduceMax; as 'soft/ReduceMax'), 'soft_2' (Sub, "
        "Exp, ReduceSum), 'soft_3' (Div); name one of them");
  CHECK(softmax("soft_2") == "soft: rows; soft_2: plain-loops (line 4); soft_3: elementwise");
  CHECK(softmax("soft/ReduceMax") == "soft: plain-loops (line 4); soft_2: rows; soft_3: elementwise");
  CHECK(softmax("\"so*\"") == "soft: plain-loops (line 4); soft_2: plain-loops (line 4); soft_3: plain-loops (line 4)");
}

TEST_CASE("pins: a node's name is not taken for that of another node's kernel") {
  const auto spelled = [](const std::string& name) {
    return strategies(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4,8] x) => (float[4,6] p, float[4,5] q, float[4,3] r)
<float[8,6] u = random(1, 0.5), float[8,5] v = random(2, 0.5), float[8,3] w = random(3, 0.5)>
{ ["a.b"] p = MatMul(x, u)  ["a_b"] q = MatMul(x, v)  ["a b"] r = MatMul(x, w) })",
                      "weft: 1\nkernels: {\"" + name + "\": {strategy: strided-product}}\n");
  };
  CHECK(spelled("a.b") ==
        "a_b: strided-product (line 2); a_b_2: packed-product panels 16; a_b_3: packed-product panels 16");
  CHECK(spelled("a_b") ==
        "a_b: packed-product panels 16; a_b_2: strided-product (line 2); a_b_3: packed-product panels 16");
  CHECK(spelled("a b") ==
        "a_b: packed-product panels 16; a_b_2: packed-product panels 16; a_b_3: strided-product (line 2)");
  CHECK(spelled("a_b_2") == spelled("a_b"));
}

TEST_CASE("pins: the copy of a kernel that updates a state has the kernel's pin, by either name") {
  const std::string model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[8,4] m, float[8,4] o, int64[2,1] at, float[2,4] x) => (float[8,4] n, float[8,4] p)
{ [n] n = ScatterND(m, at, x)  [p] p = ScatterND(o, at, x) })";
  const auto pinned = [&](const std::string& name) {
    return strategies(model, "weft: 1\nstate: {m: n}\nkernels: {" + name + ": {strategy: scatter}}\n");
  };
  CHECK(pinned("n_in_place") == "n: scatter (line 3); n_in_place: scatter in place (line 3)");
  CHECK(pinned("n") == pinned("n_in_place"));
  CHECK(pinned("p_in_place").starts_with("kernel-unmatched"));
}

TEST_CASE("pins: on one rank a pin of what a step left out would have made is left out too") {
  const auto fused = [](const std::string& ranks, const std::string& pins) {
    const auto made = prepare(kMlp, "weft: 1\nmesh: {tp: " + ranks + R"(}
shard: {fc_weight: {tp: 1}, proj_weight: {tp: 0}}
transform:
  - split: {op: proj.sum, dim: 0, into: [rs, ag]}
  - fuse: {ops: [rs, ag], into: far}
kernels: )" + pins + "\n",
                              "");
    REQUIRE(made->ok());
    std::vector<PlanningReport> reports;
    make_plan(*made->module, {}, made->diags, {{}, made->schedule.kernels}, reports);
    std::vector<std::string> texts;
    for (const Diagnostic& each : made->diags.all()) texts.push_back(each.id);
    return join(texts, ", ");
  };
  CHECK(fused("2", "{far: {strategy: peer-exchange}}") == "");
  CHECK(fused("1", "{far: {strategy: peer-exchange}}") == "transform-one-rank, transform-one-rank, kernel-one-rank");
  CHECK(fused("1", "{\"fa*\": {strategy: peer-exchange}}") == fused("1", "{far: {strategy: peer-exchange}}"));
  CHECK(fused("1", "{fat: {strategy: peer-exchange}}") == "transform-one-rank, transform-one-rank, kernel-unmatched");
}

TEST_CASE("pins: a weight is packed for the pinned strategy") {
  const Planned made = plan_of(kLayers, "weft: 1\nkernels: {head: {strategy: strided-product}}\n");
  CHECK(made.plan.weights[0].storage.text() == "1/16 0 1%16");
  CHECK(made.plan.weights.back().storage.is_row_major());
}

TEST_CASE("pins: in the one kernel of a loop over chunks the rules are those of that kernel") {
  const Target device = cuda_target({"sm_90"});
  CHECK(strategies(kMlp, overlapped("{strategy: tiled-product, tile: [64, 64]}"), device)
            .find("proj: tiled-product 64x64 (line 6)") != std::string::npos);
  CHECK(strategies(kMlp, overlapped("{strategy: tiled-product, tile: [128, 128]}"), device) ==
        "kernel-strategy: kernel 'proj' cannot be computed by tiled-product: the tile does not fit into the one kernel "
        "of a loop over chunks");
  CHECK(strategies(kMlp, overlapped("{strategy: library-product}"), device) ==
        "kernel-strategy: kernel 'proj' cannot be computed by library-product: the one kernel of a loop over chunks "
        "cannot call a library");
}

TEST_CASE("pins: tiles of doubles, tensors too small to be worth a transposition") {
  const Target device = cuda_target({"sm_90"});
  const std::string doubles = R"(<ir_version: 8, opset_import: ["" : 20]>
m (double[256,256] a, double[256,256] b) => (double[256,256] y) { y = MatMul(a, b) })";
  const std::string turned = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[6,5] x) => (float[5,6] y) { y = Transpose<perm = [1, 0]>(x) })";
  CHECK(strategies(doubles, "weft: 1\nkernels: {y: {strategy: tiled-product, tile: [128, 128]}}\n", device)
            .ends_with("a tile of 128 rows of doubles does not fit into registers"));
  CHECK(strategies(doubles, "weft: 1\nkernels: {y: {strategy: tiled-product}}\n", device) ==
        "y: tiled-product 16x64 (line 2)");
  CHECK(strategies(turned, "weft: 1\n", device) == "y: elementwise");
  CHECK(strategies(turned, "weft: 1\nkernels: {y: {strategy: transposition}}\n", device) ==
        "y: transposition (line 2)");
}

TEST_CASE("pins: tiles of minimal filtering, panels of unfolded windows, one thread") {
  const std::string model = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,16,32,32] x) => (float[1,16,32,32] y) <float[16,16,3,3] w = random(1, 0.5)>
{ [conv] y = Conv<pads = [1, 1, 1, 1]>(x, w) })";
  const auto pinned = [&](const std::string& pin) {
    return strategies(model, "weft: 1\nkernels: {conv: {" + pin + "}}\n");
  };
  CHECK(pinned("strategy: winograd-convolution, tile: [2, 2]") ==
        "conv: winograd-convolution F(2x2, 3x3), image transposed first (line 2)");
  CHECK(pinned("strategy: winograd-convolution, tile: [3, 3]").find("there are: 4x4, 2x2") != std::string::npos);
  CHECK(pinned("strategy: unfolded-convolution, panels: 9") == "conv: unfolded-convolution 9 panels (line 2)");
  CHECK(pinned("strategy: unfolded-convolution, panels: 65").find("have 64 panels") != std::string::npos);
  const Planned made = plan_of(model, "weft: 1\nkernels: {conv: {strategy: unfolded-convolution, threads: 1}}\n");
  CHECK(strategies_text(made.plan.kernels[0]).ends_with(" panels, one thread"));
}

TEST_CASE("pins: a tile fits into the target's shared memory") {
  const char* const product = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[512,64] x, float[64,512] w) => (float[512,512] y) { y = MatMul(x, w) })";
  Target device = cuda_target({"sm_90"});
  device.library_products = false;
  device.multiprocessors = 1;
  const std::pair<int64_t, const char*> rows[] = {
      {0, "128x128"}, {32 * 1024, "64x64"}, {16 * 1024, "32x64"}, {12 * 1024, "16x64"}};
  for (const auto& [bytes, tile] : rows) {
    device.shared_memory = bytes;
    CHECK(strategies(product, "", device) == std::string("y: tiled-product ") + tile);
  }
  device.shared_memory = 8 * 1024;
  CHECK(strategies(product, "", device).find("tiled-product") == std::string::npos);
  CHECK(strategies(product, "weft: 1\nkernels: {y: {strategy: tiled-product, tile: [64, 64]}}\n", device)
            .ends_with("a tile of 64x64 takes 16896 bytes of shared memory, of which there are 8192"));
}

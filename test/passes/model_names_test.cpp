// Weights found by the node that reads them, names from the exporter's modules, and what is suggested where nothing
// matches; what a request for a product's result means for its constant.
#include "passes/select.h"
#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

const std::string kHeader = "<ir_version: 10, opset_import: [\"\" : 20]>\n";

/// Two layers of two products, as exporters write them: weights without names, nodes named after modules, which are
/// noted too.
const std::string kModel = kHeader + R"(g (float[4,8] x) => (float[4,8] y)
  <float[8,16] val_1 = random(1, 0.5), float[16] b1 = random(2, 0.5), float[16,8] val_2 = random(3, 0.5),
   float[8,16] val_3 = random(4, 0.5), float[16,8] val_4 = random(5, 0.5), float[16] b3 = random(6, 0.5)> {
  [n1] h0 = MatMul(x, val_1) @ ["layers.0", "layers.0.up"]
  [n2] c0 = Add(h0, b1) @ ["layers.0", "layers.0.up"]
  [n3] a0 = Relu(c0) @ ["layers.0"]
  ["/layers.0/down/MatMul"] d0 = MatMul(a0, val_2) @ ["layers.0", "layers.0.down"]
  [n5] c1 = Gemm(d0, val_3, b3) @ ["layers.1", "layers.1.up"]
  [n6] a1 = Relu(c1) @ ["layers.1"]
  ["/layers.1/down/MatMul"] y = MatMul(a1, val_4) @ ["layers.1", "layers.1.down"]
})";

std::string in_two(const std::string& shard) { return "weft: 1\nmesh: {tp: 2}\nshard:\n" + shard; }

/// The layout of every constant of more than one dimension: "val_1 S(1,8)".
std::string weights_text(const Module& module) {
  std::vector<std::string> shown;
  for (const OpId id : module.graph.order()) {
    const Op& op = module.graph.op(id);
    if (op.kind != OpKind::Constant || module.graph.type(op.outputs[0]).ndim() < 2) continue;
    const Value& value = module.graph.value(op.outputs[0]);
    shown.push_back(value.name.substr(0, 5) + " " +
                    layout_text(value.type.layout, module.mesh(module.graph, op.place)));
  }
  std::sort(shown.begin(), shown.end());
  return join(shown, "; ");
}

struct Laid {
  std::string weights, collectives, report;
};

Laid lay(const std::string& model, const std::string& yaml) {
  const auto made = prepare(model, yaml, "apply-layouts");
  if (!made->ok()) return {"", "", made->diags.text()};
  return {weights_text(*made->module), collectives_text(*made->module), made->diags.text()};
}

/// How many products are computed as a whole, and then cut.
int whole_products(const std::string& model, const std::string& yaml) {
  const auto made = prepare(model, yaml, "apply-layouts");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  const Graph& graph = made->module->graph;
  int whole = 0, cut = 0;
  for (const OpId id : graph.order()) {
    if (graph.op(id).kind != OpKind::ShardSlice) continue;
    whole += category(graph.producer_op(graph.op(id).inputs[0])) == Category::Contraction;
    for (const Use& use : graph.value(graph.result(id)).uses)
      cut += use.op && category(graph.op(use.op)) == Category::Contraction;
  }
  CHECK(cut > 0);
  return whole;
}

const char* kMegatron = "val_1 [tp: S(1,8)]; val_2 [tp: S(0,8)]; val_3 [tp: S(1,8)]; val_4 [tp: S(0,8)]";

}  // namespace

TEST_CASE("a weight by the node that reads it") {
  const std::string yaml = in_two(
      "  weight_of(n1): {tp: 1}\n  {weight_of: n5}: {tp: 1}\n  {weight_of: \"/layers.{l}/down/MatMul\"}: {tp: 0}\n");
  const Laid laid = lay(kModel, yaml);
  CHECK(laid.report == "");
  CHECK(laid.weights == kMegatron);
  CHECK(laid.collectives == "AllReduce 2");
  CHECK(error_against_one_rank(kModel, yaml, "") < 1e-6);
}

TEST_CASE("modules' paths are names of nodes and of their constants") {
  const Laid laid = lay(kModel, in_two("  layers.{l}.up.weight: {tp: 1}\n  layers.{l}.down.weight: {tp: 0}\n"));
  CHECK(laid.report == "");
  CHECK(laid.weights == kMegatron);
  CHECK(lay(kModel, in_two("  weight_of(layers.{l}.up): {tp: 1}\n")).weights.starts_with("val_1 [tp: S(1,8)]"));
  // A module's result is what others read of its nodes.
  CHECK(lay(kModel, in_two("  layers.0.up: {tp: 1}\n")).weights.starts_with("val_1 [tp: S(1,8)]"));
  const auto made = prepare(kModel, in_two("  layers.{l}.up.bias: {tp: 0}\n"), "decompose");
  const SelectableNames names(*made->module, made->module->graph, made->schedule.aliases);
  CHECK(names.ops("layers.0").size() == 4);
  CHECK(names.values("layers.1.up.bias") == names.values("b3"));
  CHECK(names.weights("layers.0").size() == 2);
}

TEST_CASE("a pipeline's stages take modules") {
  const std::string yaml = R"(
weft: 1
places: {a: {ranks: [0]}, b: {ranks: [1]}}
pipeline: {stages: {first: {place: a, nodes: [layers.0]}, second: {place: b, nodes: [layers.1]}}, micro_batches: 2}
)";
  CHECK(error_against_one_rank(kModel, yaml, "") < 1e-6);
}

TEST_CASE("a weight that is transposed or converted first is meant as the node reads it") {
  const std::string model = kHeader + R"(g (float[4,8] x) => (float[4,16] y) <float[16,8] w = random(1, 0.5)> {
    wt = Transpose<perm = [1, 0]>(w)
    [n] y = MatMul(x, wt)
  })";
  const std::string yaml = in_two("  weight_of(n): {tp: 1}\n");
  const auto made = prepare(model, yaml, "apply-layouts");
  REQUIRE(made->ok());
  CHECK(count_ops(made->module->graph, OpKind::ShardSlice) == 0);
  CHECK(weights_text(*made->module).find("[tp: S(0,8)]") != std::string::npos);
  CHECK(error_against_one_rank(model, yaml, "") < 1e-6);
}

TEST_CASE("which weight is meant must be clear") {
  const std::string model = kHeader + R"(g (float[4,8] x) => (float[4,8] y)
    <float[8] s = random(1, 0.5), float[8] b = random(2, 0.5)> {
    [norm] n = LayerNormalization(x, s, b)
    [plain] y = Relu(n)
  })";
  CHECK(lay(model, in_two("  weight_of(norm): {tp: 0}\n"))
            .report.find("node 'norm' reads 2 weights, 's', 'b': name one of them [weight-ambiguous]") !=
        std::string::npos);
  CHECK(lay(model, in_two("  weight_of(plain): {tp: 0}\n"))
            .report.find("'plain' reads no constant: it has no weight [weight-none]") != std::string::npos);
}

TEST_CASE("a selector without a match suggests") {
  const auto said = [](const std::string& name) {
    const std::string report = lay(kModel, in_two("  \"" + name + "\": {tp: 1}\n")).report;
    const std::string between = "matches no node or value";
    const size_t from = report.find(between) + between.size();
    return report.substr(from, report.find(" [selector") - from);
  };
  CHECK(said("layers.{l}.upp.weight") == ", did you mean 'layers.{l}.up.weight'?");
  CHECK(said("layers.{i}.transformer.block.weight") == "; 'weft explain --names' lists what there is");
  CHECK(said("weight_of(/layers.{l}/down/MatMull)") == ", did you mean 'weight_of(/layers.{l}/down/MatMul)'?");
  const std::string plain = kHeader + R"(g (float[4,8] x) => (float[4,8] y) <float[8,8] val_1 = random(1, 0.5)> {
    ["/model/layers.7/attention/output/dense/MatMul"] y = MatMul(x, val_1)
  })";
  CHECK(lay(plain, in_two("  model.layers.{l}.attention.output.dense.weight: {tp: 1}\n"))
            .report.find("did you mean 'weight_of(/model/layers.{l}/attention/output/dense/MatMul)'?") !=
        std::string::npos);
}

TEST_CASE("a request for the result of a product slices its constant") {
  const auto slices = [](const std::string& yaml) {
    const auto made = prepare(kModel, in_two(yaml), "apply-layouts");
    INFO(made->diags.text());
    REQUIRE(made->ok());
    CHECK(error_against_one_rank(kModel, in_two(yaml), "") < 1e-6);
    return std::pair{weights_text(*made->module).substr(0, 18), count_ops(made->module->graph, OpKind::ShardSlice)};
  };
  CHECK(slices("  h0: {tp: 1}\n") == std::pair{std::string("val_1 [tp: S(1,8)]"), 0});
  // Through a bias and an activation, as a node and as a part of one.
  CHECK(slices("  a0: {tp: 1}\n") == std::pair{std::string("val_1 [tp: S(1,8)]"), 0});
  CHECK(lay(kModel, in_two("  c1: {tp: 1}\n")).weights.find("val_3 [tp: S(1,8)]") != std::string::npos);
  // Rows belong to the input, which all ranks have: they are cut out before the product.
  CHECK(slices("  h0: {tp: 0}\n").first.starts_with("val_1 [];"));
  CHECK(whole_products(kModel, in_two("  h0: {tp: 0}\n")) == 0);
}

TEST_CASE("the derivative by a parameter that is sliced is a product of slices of what all ranks have") {
  const std::string model = kHeader + R"(g (float[4,8] x, float[4,8] target) => (float[4,8] y)
    <float[8,8] w = random(1, 0.5), float[8,8] v = random(2, 0.5)> {
    h = MatMul(x, w)
    a = Relu(h)
    y = MatMul(a, v)
  })";
  const std::string yaml = in_two("  v: {tp: 0}\n  v.use: {tp: R}\n") +
                           "train:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n"
                           "  optimizer: {sgd: {rate: 0.1}}\n";
  CHECK(whole_products(model, yaml) == 0);
}

TEST_CASE("counter-case: a product that is read elsewhere too stays whole") {
  const std::string model = kHeader + R"(g (float[4,8] x) => (float[4,16] y, float[4,16] z)
    <float[8,16] val_1 = random(1, 0.5)> {
    h = MatMul(x, val_1)
    y = Relu(h)
    z = Exp(h)
  })";
  CHECK(lay(model, in_two("  y: {tp: 1}\n")).weights == "val_1 []");
  CHECK(lay(model, in_two("  h: {tp: 1}\n")).weights == "val_1 [tp: S(1,8)]");
  CHECK(error_against_one_rank(model, in_two("  h: {tp: 1}\n"), "") < 1e-6);
}

TEST_CASE("heads that the ranks do not divide are a warning") {
  const auto warned = [](int64_t heads) {
    const std::string model = kHeader + "g (float[4,8] x) => (float[4," + std::to_string(heads) + "," +
                              std::to_string(12 / heads) + "] y) <float[8,12] w = random(1, 0.5), int64[3] s = {4, " +
                              std::to_string(heads) + ", " + std::to_string(12 / heads) +
                              "}> {\n  h = MatMul(x, w)\n  y = Reshape(h, s)\n}";
    return lay(model, in_two("  w: {tp: 1}\n"));
  };
  CHECK(warned(4).report == "");
  CHECK(
      warned(3).report.find("warning: slices of 'h' over 'tp' are gathered here, and all 2 ranks compute what follows: "
                            "its dimension 1 becomes 3 x 4, of which a slice of 6 holds no whole parts "
                            "[parts-gathered]") != std::string::npos);
  CHECK(warned(3).collectives == "AllGather 1");
}

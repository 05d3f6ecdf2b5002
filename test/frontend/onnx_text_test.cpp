// The ONNX text syntax: what is read, and where mistakes are shown.
#include "frontend/onnx_text.h"

#include <doctest/doctest.h>

#include "reading.h"

using namespace weftc;

TEST_CASE("a text model becomes a graph") {
  const ReadModel read = read_graph(R"((float[2, 3] x) => (float[2, 4] y)
    <float[3, 4] w = random(7, 0.5), float[4] b = {1, 2.5, -3, 1e-1}>
  {
    [mm] h = MatMul(x, w)   # a comment
    y = Add(h, b)
  })");
  REQUIRE_MESSAGE(read.module, read.diags.text());
  const Graph& graph = read.module->graph;
  CHECK(shown(graph) == "x = Input()\nw = Constant()\nh = MatMul(x, w)\nb = Constant()\ny = Add(h, b)\n");
  CHECK(graph.op(graph.find_op("mm")).kind == OpKind::MatMul);
  CHECK(graph.op(graph.find_op("y")).kind == OpKind::Add);
  CHECK(graph.outputs()[0].name == "y");
  CHECK(graph.type(graph.inputs()[0]).dims() == Dims{2, 3});
  const Tensor bias = read.module->constants.tensor(graph.producer_op(graph.find_value("b")).constant("value"));
  CHECK(bias.real[1] == 2.5);
  CHECK(bias.real[3] == doctest::Approx(0.1));
  CHECK(read.module->origins[0].loc.line == 5);
}

TEST_CASE("random initializers follow Philox4x32-10") {
  // Known answer of the generator for key and counter zero: its first word is 0x6627e8d5.
  CHECK(random_weight(0, 0, 1) == (0x6627e8d5 >> 8) * 0x1p-24 * 2 - 1);
  const ReadModel read = read_graph(
      "(float[2] x) => (float[2] y) <float[2] w = random(5, 0.25), float16[1] u = random(5, 1)> "
      "{ y = Add(x, w) }");
  REQUIRE(read.module);
  const Graph& graph = read.module->graph;
  const Tensor w = read.module->constants.tensor(graph.producer_op(graph.find_value("w")).constant("value"));
  CHECK(w.real[1] == static_cast<float>(random_weight(5, 1, 0.25)));
}

TEST_CASE("attributes of every kind") {
  const ReadModel read = read_graph(R"((float[2, 3] x) => (float[2, 3] y, int64[2] s) {
    a = LeakyRelu<alpha = 0.5>(x)
    b = Transpose(a) <perm = [1, 0]>
    c = Cast<to = 1>(b)
    d = Transpose<perm : ints = [1, 0]>(c)
    e = Gelu<approximate = "tanh">(d)
    k = Constant<value = float[3] {1, 2, 3}>()
    y = Mul(e, k)
    s = Shape(y)
  })");
  REQUIRE_MESSAGE(read.module, read.diags.text());
  const Graph& graph = read.module->graph;
  CHECK(graph.op(graph.find_op("a")).real("alpha") == 0.5);
  CHECK(graph.op(graph.find_op("b")).ints("perm") == std::vector<int64_t>{1, 0});
  CHECK(graph.op(graph.find_op("e")).text("approximate") == "tanh");
}

TEST_CASE("names that are no identifiers are quoted, absent operands are blanks") {
  const ReadModel read = read_graph(R"((float[2] "x/0.in") => (float[2] y) <float m = {1}> {
    ["h.0/clip"] y = Clip("x/0.in", , m)
  })");
  REQUIRE_MESSAGE(read.module, read.diags.text());
  CHECK(shown(read.module->graph) == "x/0.in = Input()\nm = Constant()\ny = Clip(x/0.in, -, m)\n");
  CHECK(read.module->graph.find_op("h.0/clip"));
}

TEST_CASE("mistakes are shown where they stand") {
  const ReadModel read = read_text("<ir_version: 10>\nm (float[2] x) => (float[2] y) {\n  y = Relu(x;)\n}");
  CHECK(read.diags.text() ==
        "m.onnxtxt:3:13: error: character ';' has no meaning here [model-text-character]\n"
        "  3 |   y = Relu(x;)\n"
        "    |             ^\n");
}

TEST_CASE("each mistake has its message") {
  const auto id = [](const std::string& graph) { return read_graph(graph).ids(); };
  CHECK(id("(float[2] x) => (float[2] y { y = Relu(x) }") == "model-text-syntax");
  CHECK(id("(float[2] x) => (float[2] y) { y = Relu(x)") == "model-text-syntax");
  CHECK(id("(float[-2] x) => (float[2] y) { y = Relu(x) }") == "model-text-extent");
  CHECK(id("(float[99999999999999999999] x) => (float[2] y) { y = Relu(x) }") == "model-text-range");
  CHECK(id("(float[2] x) => (float[2] y) <int8[1] b = {300}> { y = Relu(x) }") == "model-text-range");
  CHECK(id("(float[2] x) => (float[2] y) <float[2] b = {3}> { y = Relu(x) }") == "model-text-count");
  CHECK(id("(float[2] x) => (float[2] y) <int8[2] b = random(1, 1)> { y = Relu(x) }") == "model-text-random");
  CHECK(id("(float[2] x) => (float[2] y) <float[2] b = [\"place\": \"w\"]> { y = Relu(x) }") == "model-text-external");
  CHECK(id("(float[2] x) => (float[2] y) <string[1] b = {\"\\xff\"}> { y = Relu(x) }") == "model-text-string");
  CHECK(id("(float[2] x) => (float[2] y) <complex64 b = {1}> { y = Relu(x) }") == "model-text-initializer");
  CHECK(id("(float[2] x) => (float[2] y) <float[N] b = {1}> { y = Relu(x) }") == "model-text-initializer-dims");
  CHECK(id("(float[2] x) => (float[2] y = {1, 2}) { y = Relu(x) }") == "model-text-output");
  CHECK(id("(float[2] x) => (float[2] y) { y = LeakyRelu<alpha : real = 1>(x) }") == "model-text-attribute-type");
  CHECK(id("(float[2] x) => (float[2] y) { y = LeakyRelu<alpha : ints = 1>(x) }") == "model-text-attribute-value");
  CHECK(id("(float[2] x) => (float[2] y) { y = Relu(x) } <domain : \"local\"> f (float a = {1}) => (b) { b = Relu(a) "
           "}") == "model-text-function");
  CHECK(read_text("<version: 3> m (float x) => (float y) { y = Relu(x) }").ids() == "model-text-key");
  std::string deep = "(bool c, float x) => (float y) { ";
  for (int i = 0; i < 70; ++i) deep += "y = If<then_branch = g () => (y) { ";
  CHECK(id(deep) == "model-text-depth");
}

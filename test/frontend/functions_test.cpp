// Model-local functions are inlined.
#include <doctest/doctest.h>

#include "reading.h"

using namespace weftc;

static ReadModel read_call(const std::string& nodes, const std::string& functions) {
  return read_graph("(float[2] x) => (float[2] y) { " + nodes + " }\n" + functions);
}
static const char* kHeader = "<domain: \"local\", opset_import: [\"\" : 20, \"local\" : 1]> ";

TEST_CASE("a body gets the call's name in front, attributes from the call or the default") {
  const ReadModel read = read_call(
      "[f] h = local.act<alpha = 0.5>(x)  [g] y = local.act(h)",
      kHeader +
          std::string("act <beta, alpha = 0.25> (a) => (b) { [l] t = LeakyRelu<alpha = @alpha>(a)  b = Neg(t) }"));
  REQUIRE_MESSAGE(read.module, read.diags.text());
  const Graph& graph = read.module->graph;
  CHECK(shown(graph) == "x = Input()\nf/t = LeakyRelu(x)\nh = Neg(f/t)\ng/t = LeakyRelu(h)\ny = Neg(g/t)\n");
  CHECK(graph.op(graph.find_op("f/l")).real("alpha") == 0.5);
  CHECK(graph.op(graph.find_op("g/l")).real("alpha") == 0.25);
}

TEST_CASE("functions call functions, overloads are told apart") {
  const std::string functions =
      kHeader + std::string("twice (a) => (b) { t = local.once:fast(a)  b = local.once(t) } ") +
      "<domain: \"local\", overload: \"fast\", opset_import: [\"\" : 20]> once (a) => (b) { b = Neg(a) } " +
      "<domain: \"local\", opset_import: [\"\" : 20]> once (a) => (b) { b = Relu(a) }";
  const ReadModel read = read_call("y = local.twice(x)", functions);
  REQUIRE_MESSAGE(read.module, read.diags.text());
  CHECK(shown(read.module->graph) == "x = Input()\ny/t = Neg(x)\ny = Relu(y/t)\n");
}

TEST_CASE("a result that is an operand becomes an Identity, subgraphs are renamed too") {
  const ReadModel same = read_call("y = local.same(x)", kHeader + std::string("same (a) => (a) { }"));
  REQUIRE_MESSAGE(same.module, same.diags.text());
  CHECK(shown(same.module->graph) == "x = Input()\ny = Identity(x)\n");

  const ReadModel branch =
      read_graph("(float[2] x, bool c) => (float[2] y) { y = local.pick(c, x) }\n" + std::string(kHeader) +
                 "pick (p, a) => (b) { b = If(p) <then_branch = t () => (x) { x = Neg(a) }, else_branch = e () => (z) "
                 "{ z = Relu(a) }> }");
  REQUIRE_MESSAGE(branch.module, branch.diags.text());
  CHECK(shown(branch.module->graph) ==
        "x = Input()\nc = Input()\ny = If(c, x)\n  x = Input()\n  y/x = Neg(x)\n  --\n  x = Input()\n  y/z = Relu(x)\n "
        " --\n");
}

TEST_CASE("functions that cannot be inlined") {
  CHECK(read_call("y = local.f(x)", kHeader + std::string("f (a) => (b) { b = local.f(a) }")).ids() ==
        "function-recursive");
  CHECK(read_call("y = local.f(x, x)", kHeader + std::string("f (a) => (b) { b = Neg(a) }")).ids() == "function-arity");
  const std::string f = kHeader + std::string("f (a) => (b) { b = Neg(a) } ");
  CHECK(read_call("y = local.f(x)", f + f).ids() == "function-repeated");
  std::string chain;
  for (int i = 0; i < 70; ++i) {
    const std::string next = i == 69 ? "Neg" : "local.f" + std::to_string(i + 1);
    chain += kHeader + ("f" + std::to_string(i)) + " (a) => (b) { b = " + next + "(a) } ";
  }
  CHECK(read_call("y = local.f0(x)", chain).ids() == "function-depth");
  std::string bomb;
  for (int i = 0; i < 25; ++i) {
    const std::string next = i == 24 ? "Neg" : "local.f" + std::to_string(i + 1);
    bomb += kHeader + ("f" + std::to_string(i)) + " (a) => (b) { c = " + next + "(a)  b = " + next + "(c) } ";
  }
  CHECK(read_call("y = local.f0(x)", bomb).ids() == "function-size");
}

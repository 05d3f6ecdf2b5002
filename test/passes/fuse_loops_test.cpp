// Loops that become one kernel, and the nearest ones that do not.
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// A loop of five trips over v, which captures a float[5,4] a, a float[4] k, a float[4,4] w and numbers. `collects`:
/// the body makes s, which is collected.
std::string loop(const std::string& body, bool collects = false) {
  const std::string results = collects ? "float[4] r, float[4] s" : "float[4] r";
  return std::string(
             "<ir_version: 8, opset_import: [\"\" : 20]> m (float[4] x, float[5,4] a, float[4] k, float[4,4] w, ") +
         "int64 pick) => (float[4] y" + (collects ? ", float[5,4] ys" : "") +
         ") <int64 n = {5}, bool yes = {1}, float two = {2}, int64 four = {4}, int64 three = {3}> { " +
         (collects ? "y, ys" : "y") + " = Loop (n, yes, x) <body = b (int64 i, bool c, float[4] v) => (bool d, " +
         results + ") { d = Identity(c) " + body + " }> }";
}

/// How many loops are left outside of kernels.
int loops_left(const std::string& model) {
  const auto made = prepare(model, "", "fuse-loops");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  const Graph& graph = made->module->graph;
  int loops = 0;
  for (OpId id : graph.order()) loops += graph.op(id).kind == OpKind::Loop;
  return loops;
}

}  // namespace

TEST_CASE("a loop of element-wise steps is one kernel") {
  CHECK(loops_left(loop("r = Mul(v, k)")) == 0);
  CHECK(loops_left(loop("t = Gather(a, i) r = Add(v, t)")) == 0);
  CHECK(loops_left(loop("at = Sub(four, i) t = Gather(a, at) r = Add(v, t)")) == 0);
  CHECK(loops_left(loop("r = Mul(v, two) s = Neg(r)", true)) == 0);
  CHECK(error_against_one_rank(loop("t = Gather(a, i) r = Add(v, t)"), "weft: 1\nmesh: {dp: 2}\nshard: {x: {dp: 0}}",
                               "") < 1e-6);
}

TEST_CASE("counter-case: a step reads other elements than its own") {
  CHECK(loops_left(loop("r = MatMul(v, w)")) == 1);
  CHECK(loops_left(loop("m = ReduceMax <keepdims = 1> (v) r = Sub(v, m)")) == 1);
}

TEST_CASE("counter-case: a row is looked up that may not be there") {
  CHECK(loops_left(loop("t = Gather(a, pick) r = Add(v, t)")) == 1);
  CHECK(loops_left(loop("at = Sub(three, i) t = Gather(a, at) r = Add(v, t)")) == 1);
}

TEST_CASE("counter-case: the loop may end early") {
  const std::string body = "e = Constant <value = int64[1] {0}> () m = ReduceMax <keepdims = 0> (v, e) ";
  std::string model = loop(body + "r = Mul(v, two)");
  model.replace(model.find("d = Identity(c)"), 15, "");
  model.replace(model.find("r = Mul(v, two)"), 15, "r = Mul(v, two) d = Less(m, two)");
  CHECK(loops_left(model) == 1);
}

TEST_CASE("counter-case: what is carried is rounded to 16 bits in each step") {
  std::string model = loop("r = Mul(v, k)");
  for (size_t at; (at = model.find("float[")) != std::string::npos;) model.replace(at, 6, "float16[");
  CHECK(loops_left(model) == 1);
}

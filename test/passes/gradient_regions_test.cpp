// Gradients through what owns graphs: loops in loops and branches, sequences that are read in part, what is refused.
#include <doctest/doctest.h>

#include <set>

#include "test/passes/gradient_check.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr GradientRow kRegionRows[] = {
    // No trip, one trip.
    {"Loop", "x[3], w[3]",
     "n = Constant<value = int64 {$(0|1)}>() z = Loop(n, , x)<body = b (int64 i, bool c, double[3] h) => (bool d, "
     "double[3] next) { d = Identity(c) next = Mul(h, w) }>"},
    // Carried values that change their places, one that goes round as it is, and one that no trip reads.
    {"Loop", "x[3], w[3], v[3]",
     "n = Constant<value = int64 {3}>() p, q, r, s = Loop(n, , x, w, v, x)<body = b (int64 i, bool c, double[3] f, "
     "double[3] g, double[3] h, double[3] j) => (bool d, double[3] f2, double[3] g2, double[3] h2, double[3] j2) { d = "
     "Identity(c) f2 = Identity(g) m = Mul(f, g) g2 = Add(m, h) h2 = Identity(h) j2 = Mul(f, h) }> "
     "o = Mul(p, q) z = Concat<axis = 0>(o, r, s)"},
    // A sequence that is read twice a trip, from both ends, and once as a whole; a table by indices that are computed.
    {"Loop", "x[2], w[4, 2], v[5, 2]",
     "n = Constant<value = int64 {4}>() t = Constant<value = int64[4, 2] {4, 0, 0, 1, 3, 3, 2, 0}>() z, s = Loop(n, , "
     "x)<body = b (int64 i, bool c, double[2] h) => (bool d, double[2] next, double[2] out) { d = Identity(c) a = "
     "Gather<axis = 0>(w, i) three = Constant<value = int64 {3}>() k = Sub(three, i) e = Gather<axis = 0>(w, k) u = "
     "ReduceSum<keepdims = 0>(w) two_rows = Gather<axis = 0>(t, i) y = Gather<axis = 0>(v, two_rows) f = "
     "ReduceMax<keepdims = 0>(y) l = Mul(a, e) o = Mul(l, u) q = Mul(h, o) next = Sub(q, f) out = Mul(a, next) }>"},
    // Along another dimension than the first, and by a parameter of the loop around it.
    {"Loop", "x[2, 3], w[3, 2, 4]",
     "n = Constant<value = int64 {2}>() m = Constant<value = int64 {4}>() z = Loop(n, , x)<body = b (int64 i, bool c, "
     "double[2, 3] h) => (bool d, double[2, 3] next) { d = Identity(c) g = Loop(m, , h)<body = e (int64 j, bool k, "
     "double[2, 3] f) => (bool l, double[2, 3] f2) { l = Identity(k) r = Gather<axis = 2>(w, j) p = Gather<axis = "
     "1>(r, i) "
     "f2 = Mul(f, p) }> next = Tanh(g) }>"},
    // Branches in trips, with a loop in one branch; the branch is chosen by the trip.
    {"If", "x[2, 3], w[3, 3]",
     "n = Constant<value = int64 {3}>() f, s = Loop(n, , x)<body = b (int64 i, bool c, double[2, 3] h) => (bool d, "
     "double[2, 3] next, double[2, 3] out) { d = Identity(c) one = Constant<value = int64 {1}>() is = Equal(i, one) g "
     "= "
     "If(is)<then_branch = t () => (double[2, 3] y) { two_trips = Constant<value = int64 {2}>() y = Loop(two_trips, , "
     "h)<body = o (int64 j, bool k, double[2, 3] p) => (bool l, double[2, 3] q) { l = Identity(k) r = MatMul(p, w) q = "
     "Sin(r) }> }, else_branch = e () => (double[2, 3] u) { v = Mul(h, h) u = MatMul(v, w) }> next = Sub(g, x) out = "
     "Mul(next, h) }> z = Add(s, f)"},
    // A branch that draws: the same numbers again.
    {"If", "x[4, 4], bool c[1]",
     "z = If(c)<then_branch = t () => (double[4, 4] y) { r = Constant<value = float {0.5}>() on = Constant<value = "
     "bool "
     "{1}>() e = Exp(x) y = Dropout<seed = 3>(e, r, on) }, else_branch = e () => (double[4, 4] u) { u = Sin(x) }>"},
    // Weights that all trips share, and that are also read after the loop.
    {"Scan", "x[3], w[4, 3], v[3, 3]",
     "f, s = Scan<num_scan_inputs = 1, body = b (double[3] h, double[3] e) => (double[3] next, double[3] out) { m = "
     "MatMul(h, v) a = Add(m, e) next = Tanh(a) out = Softmax(a) }>(x, w) o = MatMul(s, v) z = Add(o, f)"},
    // Elements that lie along the second dimension, and outputs that are collected along it.
    {"Scan", "x[3], w[3, 4]",
     "f, s = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1], body = b (double[3] h, double[3] "
     "e) "
     "=> (double[3] next, double[3] out) { next = Mul(h, e) out = Mul(next, h) }>(x, w) z = Mul(s, w)"},
};

/// The first diagnostic for a model with this loop of x.
std::string refusal(const std::string& body) {
  const auto made = prepare(R"(<ir_version: 10, opset_import: ["" : 22, "ai.onnx.preview.training" : 1]>
m (float[4] x, int64 n, bool c) => (float[4] dx) <int64 three = {3}> { )" +
                                body + R"( y = ReduceSum<keepdims = 0>(z)
dx = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(x) })",
                            "", "decompose");
  return made->diags.all().empty() ? "" : made->diags.all()[0].id + ": " + made->diags.all()[0].message;
}

}  // namespace

TEST_CASE("gradients through loops and branches are the limits of differences") {
  for (const GradientRow& row : kRegionRows)
    for (uint64_t seed = 1; seed <= 4; ++seed) check_row(row, seed);
}

TEST_CASE("a gradient of a gradient through a loop") {
  const auto made = prepare(R"(<ir_version: 10, opset_import: ["" : 20, "ai.onnx.preview.training" : 1]>
m (double[3] x) => (double[3] second) <int64 n = {3}> {
  z = Loop(n, , x)<body = b (int64 i, bool c, double[3] h) => (bool d, double[3] next) {
    d = Identity(c) next = Mul(h, x) }>
  y = ReduceSum<keepdims = 0>(z)
  first = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(x)
  s = ReduceSum<keepdims = 0>(first)
  second = ai.onnx.preview.training.Gradient<xs = ["x"], y = "s">(x)
})",
                            "", "decompose");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  Tensor x(DType::F64, {3});
  x.real = {1, -2, 0.5};
  const std::vector<double> second = evaluate(*made->module, {x}).outputs[0].real;  // of x^4
  for (size_t i = 0; i < 3; ++i) CHECK(second[i] == doctest::Approx(12 * x.real[i] * x.real[i]));
}

TEST_CASE("gradients through loops that cannot be computed are refused") {
  const std::string body =
      "<body = b (int64 i, bool k, float[4] h) => (bool d, float[4] next) { d = Identity(k) next = Tanh(h) }>";
  CHECK(refusal("z = Loop(three, , x)" + body) == "");
  CHECK(refusal("z = Loop(n, , x)" + body) ==
        "gradient-unsupported: a run decides how many trips there are, which leaves no room for what each has computed "
        "in "
        "the gradient of Loop ('z')");
  CHECK(refusal("z = Loop(three, c, x)" + body).starts_with("gradient-unsupported: a run decides how many trips"));
  CHECK(refusal("z = Loop(three, , x)<body = b (int64 i, bool k, float[4] h) => (bool d, float[4] next) { m = "
                "ReduceMax<keepdims = 0>(h) l = Constant<value = float {2}>() d = Less(m, l) next = Tanh(h) }>")
            .starts_with("gradient-unsupported: a run decides how many trips"));
  CHECK(refusal(
            "z = Loop(three, , x)<body = b (int64 i, bool k, float[4] h) => (bool d, float[4] next) { d = Identity(k) "
            "r = RandomUniformLike<dtype = 1>(h) next = Mul(h, r) }>") ==
        "gradient-unsupported: a trip draws random numbers, which are not drawn again in the gradient of Loop ('z')");
  CHECK(refusal(
            "z = Loop(three, , x)<body = b (int64 i, bool k, float[4] h) => (bool d, float[4] next) { d = Identity(k) "
            "next = ScatterElements<reduction = \"max\">(h, i4, h) i4 = Constant<value = int64[4] {0, 1, 1, 2}>() }>")
            .starts_with("gradient-unsupported: there is no rule for the gradient of ScatterElements"));
}

TEST_CASE("what goes back through a loop has names of its own") {
  const auto made = prepare(R"(<ir_version: 10, opset_import: ["" : 22, "ai.onnx.preview.training" : 1]>
m (float[4] x) => (float[4] dx) <int64 n = {3}> {
  z = Loop(n, , x)<body = b (int64 i, bool c, float[4] h) => (bool d, float[4] next) { d = Identity(c) next = Tanh(h) }>
  y = ReduceSum<keepdims = 0>(z)
  dx = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(x) })",
                            "", "differentiate");
  REQUIRE(made->ok());
  std::map<std::string, std::set<std::string>> nodes;  // by op, those that it comes from
  const auto collect = [&](const auto& self, const Graph& graph) -> void {
    for (const OpId id : graph.order()) {
      for (const OriginId origin : graph.op(id).origins)
        nodes[graph.op(id).name].insert(made->module->origins[origin.index].name);
      for (const Graph& region : graph.op(id).regions) self(self, region);
    }
  };
  collect(collect, made->module->graph);
  CHECK(nodes["next"] == std::set<std::string>{"next"});
  CHECK(nodes["next.again"] == std::set<std::string>{"next.grad"});
  CHECK(nodes["next.grad/Mul"] == std::set<std::string>{"next.grad"});
  CHECK(nodes["z.grad/Loop"] == std::set<std::string>{"z.grad"});
}

// Ops that become one kernel, and similar ones that do not.
#include <chrono>

#include "passes/fusion/quotient.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

std::string model(const std::string& head, const std::string& body) {
  return "<ir_version: 8, opset_import: [\"\" : 20]>\nm " + head + "\n{" + body + "}";
}

}  // namespace

TEST_CASE("bias, activation and residual follow their contraction") {
  CHECK(fused(kMlp) == "contraction: MatMul Add Relu; contraction: MatMul Add Add; ");
}

TEST_CASE("near miss: a value that others read too ends the epilogue") {
  CHECK(fused(model("(float[4,4] x) => (float[4,4] y, float[4,4] z) <float[4,4] w = random(1, 1.0)>",
                    "a = MatMul(x, w)  b = Neg(a)  y = Relu(b)  z = Tanh(b)")) ==
        "contraction: MatMul Neg; pointwise: Relu; pointwise: Tanh; ");
}

TEST_CASE("sums down columns leave out what other kernels read, sums along rows take it in") {
  const std::string weights = "<float[16,16] w = random(1, 1.0), int64[1] axes = ";
  const std::string body = "a = Relu(x)  y = MatMul(a, w)  s = ReduceSum<keepdims = 0>(a, axes)";
  CHECK(fused(model("(float[16,16] x) => (float[16,16] y, float[16] s) " + weights + "{0}>", body)) ==
        "pointwise: Relu; contraction: MatMul; reduction: ReduceSum; ");
  CHECK(fused(model("(float[16,16] x) => (float[16,16] y, float[16] s) " + weights + "{1}>", body)) ==
        "reduction: Relu ReduceSum; contraction: MatMul; ");
}

TEST_CASE("an epilogue takes a diamond that closes again") {
  CHECK(fused(model("(float[4,4] x) => (float[4,4] y) <float[4,4] w = random(1, 1.0)>",
                    "a = MatMul(x, w)  b = Sigmoid(a)  y = Mul(a, b)")) == "contraction: MatMul Sigmoid Mul; ");
}

TEST_CASE("two contractions added: the later one takes the sum") {
  const std::string text =
      fused(model("(float[4,4] x) => (float[4,4] y) <float[4,4] w = random(1, 1.0), float[4,4] v = random(2, 1.0)>",
                  "a = MatMul(x, w)  b = MatMul(x, v)  y = Add(a, b)"));
  CHECK((text == "contraction: MatMul; contraction: MatMul Add; "));
}

namespace {

/// The kernels of y = f(x w) on a device, which takes products to a library; `what` computes y from a.
std::string on_device(const std::string& what, const std::string& type = "float", const std::string& results = "y") {
  const std::string t = type + "[4,4] ";
  std::string outputs = t + "y";
  if (results != "y") outputs += ", " + t + results;
  const Target cuda = cuda_target({"sm_90"});
  return fused(
      model("(" + t + "x) => (" + outputs + ") <" + t + "w = random(1, 1.0), " + type + "[4] b = random(2, 1.0), " +
                type + " half = {0.5}, " + type + " one = {1.0}, " + type + " three = {3.0}, " + type +
                " root = {0.7978845608}, " + type + " cubic = {0.044715}, " + type + " other = {0.0448}>",
            "a = MatMul(x, w)  " + what),
      "", cuda);
}

/// The product alone, followed by something that stays outside.
bool is_apart(const std::string& kernels, const std::string& product = "MatMul") {
  return kernels.find("contraction: " + product + "; pointwise: ") == 0;
}

}  // namespace

TEST_CASE("a device's library adds a bias and takes Relu or the tanh form of Gelu, however it is spelled") {
  CHECK(on_device("c = Add(a, b)  y = Relu(c)") == "contraction: MatMul Add Relu; ");
  const char* const kSpellings[] = {
      "y = Gelu<approximate = \"tanh\">(a)", "c = Add(b, a)  y = Gelu<approximate = \"tanh\">(c)",
      "p = Pow(a, three)  s = Mul(cubic, p)  i = Add(a, s)  r = Mul(i, root)  t = Tanh(r)  g = Add(t, one)  "
      "h = Mul(a, g)  y = Mul(half, h)",
      "q = Mul(a, a)  s = Mul(q, cubic)  f = Add(one, s)  u = Mul(a, root)  r = Mul(u, f)  t = Tanh(r)  "
      "h = Mul(a, half)  m = Mul(h, t)  y = Add(m, h)"};
  for (const char* spelling : kSpellings) {
    INFO(spelling);
    const std::string kernels = on_device(spelling);
    CHECK(kernels.find("contraction: MatMul ") == 0);
    CHECK(kernels.find("pointwise") == std::string::npos);
  }
  CHECK(on_device("y = Gelu<approximate = \"tanh\">(a)", "float16").find("pointwise") == std::string::npos);
}

TEST_CASE("near miss: what is not the tanh form of Gelu stays out of a library's product") {
  CHECK(is_apart(on_device("y = Gelu(a)")));  // with erf
  CHECK(is_apart(on_device("c = Add(a, b)  y = Gelu(c)"), "MatMul Add"));
  const auto spelled = [](const std::string& cubic, const std::string& one) {
    return "p = Pow(a, three)  s = Mul(" + cubic + ", p)  i = Add(a, s)  r = Mul(i, root)  t = Tanh(r)  g = Add(t, " +
           one + ")  h = Mul(a, g)  y = Mul(half, h)";
  };
  CHECK_FALSE(is_apart(on_device(spelled("cubic", "one"))));
  CHECK(is_apart(on_device(spelled("other", "one"))));
  CHECK(is_apart(on_device(spelled("cubic", "half"))));
  // Others read the product, or something on the way.
  CHECK(is_apart(on_device("y = Gelu<approximate = \"tanh\">(a)  z = Neg(a)", "float", "z")));
  CHECK(is_apart(on_device(spelled("cubic", "one") + "  z = Neg(t)", "float", "z")));
  CHECK(is_apart(on_device("c = Relu(a)  y = Add(c, b)"), "MatMul Relu"));
  // Constants that a narrow type has rounded are the same; in double they must be right.
  CHECK_FALSE(is_apart(on_device(spelled("cubic", "one"), "float16")));
  CHECK(is_apart(on_device(spelled("cubic", "one"), "double")));
}

TEST_CASE("softmax and layer normalisation are one kernel each") {
  CHECK(fused(model("(float[2,8] x) => (float[2,8] y)", "y = Softmax(x)")) ==
        "reduction: ReduceMax Sub Exp ReduceSum Div; ");
  const std::string norm =
      fused(model("(float[2,8] x, float[2,8] r) => (float[2,8] s, float[2,8] y) <float[8] g = random(1, 1.0), float[8] "
                  "b = random(2, 1.0)>",
                  "s = Add(x, r)  y = LayerNormalization<axis = -1>(s, g, b)"));
  CHECK(norm.find("reduction: Add ") == 0);
  CHECK(norm.find("; ") == norm.size() - 2);
}

TEST_CASE("near miss: reductions over other axes are other kernels") {
  CHECK(fused(model("(float[4,4] x) => (float[4,4] y) <int64[1] a = {0}, int64[1] b = {1}>",
                    "s = ReduceSum(x, a)  t = ReduceSum(x, b)  u = Add(x, s)  y = Mul(u, t)")) ==
        "reduction: ReduceSum; reduction: ReduceSum Add Mul; ");
}

TEST_CASE("near miss: a row broadcast along another dimension is not this row's number") {
  const std::string text = fused(model("(float[4,4,4] x) => (float[4,4,4] y) <int64[1] a = {2}>",
                                       "s = ReduceSum<keepdims = 0>(x, a)  y = Add(x, s)"));
  CHECK(text == "reduction: ReduceSum; pointwise: Add; ");
}

TEST_CASE("pointwise ops over one shape are one kernel with several results") {
  CHECK(fused(model("(float[4,4] x) => (float[4,4] y, float[4,4] z)", "a = Neg(x)  y = Relu(a)  z = Tanh(a)")) ==
        "pointwise: Neg Relu Tanh; ");
}

TEST_CASE("near miss: a kernel around another kernel would be a cycle") {
  CHECK(fused(model("(float[4,4] x) => (float[4,4] y) <float[4,4] w = random(1, 1.0)>",
                    "a = Neg(x)  m = MatMul(a, w)  n = Relu(m)  y = Add(n, a)")) ==
        "pointwise: Neg; contraction: MatMul Relu Add; ");
  CHECK(fused(model("(float[4,4] x) => (float[4,4] y, float[4,4] m) <float[4,4] w = random(1, 1.0)>",
                    "a = Neg(x)  m = MatMul(a, w)  y = Add(m, a)")) ==
        "pointwise: Neg; contraction: MatMul; pointwise: Add; ");
}

TEST_CASE("views are done while loading, by every reader") {
  CHECK(fused(model("(float[4,6] x) => (float[6,4] y, float[6,4] z) <float[4,4] w = random(1, 1.0)>",
                    "t = Transpose<perm = [1, 0]>(x)  y = MatMul(t, w)  z = Relu(t)")) ==
        "contraction: Transpose MatMul; pointwise: Transpose Relu; ");
}

TEST_CASE("a view of a view's pointwise result cannot join its kernel") {
  CHECK(
      fused(model("(float[4,4] x) => (float[4,4] y)", "a = Neg(x)  t = Transpose<perm = [1, 0]>(a)  y = Add(a, t)")) ==
      "pointwise: Neg; pointwise: Transpose Add; ");
}

TEST_CASE("a transposed result is stored transposed by the contraction") {
  CHECK(fused(model("(float[4,6] x) => (float[6,4] y) <float[6,6] w = random(1, 1.0), float[4,4] v = random(2, 1.0)>",
                    "a = MatMul(x, w)  t = Transpose<perm = [1, 0]>(a)  y = MatMul(t, v)")) ==
        "contraction: MatMul Transpose; contraction: MatMul; ");
}

TEST_CASE("an output that is a view is copied, a reshaped one is not") {
  CHECK(fused(model("(float[4,6] x) => (float[6,4] y)", "y = Transpose<perm = [1, 0]>(x)")) ==
        "pointwise: Transpose; ");
  CHECK(fused(model("(float[4,6] x) => (float[24] y) <int64[1] s = {24}>", "a = Relu(x)  y = Reshape(a, s)")) ==
        "pointwise: Relu; ");
}

TEST_CASE("a constant that is an output is copied") {
  CHECK(fused(model("(float[4] x) => (float[4] y, float[4] c) <float[4] w = random(1, 1.0)>",
                    "y = Relu(x)  c = Identity(w)")) == "pointwise: Relu; pointwise: Reshape; ");
}

TEST_CASE("embedding look-ups join the sum of them") {
  CHECK(fused(model("(int64[2,4] ids, int64[4] at) => (float[2,4,8] y) <float[9,8] wte = random(1, 1.0), float[5,8] "
                    "wpe = random(2, 1.0)>",
                    "a = Gather(wte, ids)  b = Gather(wpe, at)  y = Add(a, b)"))
            .find("pointwise: Gather Add; ") != std::string::npos);
}

TEST_CASE("collectives stay outside, a schedule's fused kernel stays as it is") {
  CHECK(fused(kMlp, kTp2) == "contraction: MatMul Add Relu; contraction: MatMul; pointwise: Add Add; ");
  CHECK(fused(kMlp, kTp2Fused) ==
        "contraction: MatMul Add Relu; contraction: MatMul; collective: ShardSlice ReduceScatter Add Add AllGather; ");
  CHECK(fused(kMlp, kTp2Overlap).find("{ contraction: MatMul; collective: ") != std::string::npos);
}

TEST_CASE("20,000 ops fuse in about a second") {
  std::string body = "v0 = Relu(x)\n";  // one op a line, because each op keeps a copy of its line
  for (int i = 1; i < 20000; ++i) {
    const std::string at = std::to_string(i), before = std::to_string(i - 1), far = std::to_string(i < 50 ? 0 : i - 50);
    body += "v" + at + (i % 7 ? " = Neg(v" + before + ")\n" : " = Add(v" + before + ", v" + far + ")\n");
  }
  const auto made = prepare(model("(float[4] x) => (float[4] v19999)", body), "", "apply-transforms");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  const auto start = std::chrono::steady_clock::now();
  const Fusion fusion = decide_fusion(*made->module, made->module->graph, Target{});
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < 3);
  CHECK(fusion.groups.size() < 2000);
}

TEST_CASE("a quotient refuses merges around another node, and keeps an order") {
  Quotient q(4);  // 0 -> 1 -> 2, 0 -> 2, 3
  q.add_edge(0, 1), q.add_edge(1, 2), q.add_edge(0, 2);
  CHECK_FALSE(q.merge(0, 2));
  CHECK(q.merge(0, 3));
  CHECK_FALSE(q.merge(3, 2));
  CHECK(q.merge(0, 1));
  CHECK(q.merge(0, 2));
  CHECK(q.group(3) == q.group(2));
}

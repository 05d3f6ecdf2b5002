// Predicted times of steps beside measured ones: the least of 60 runs on one Sapphire Rapids core, with operands in its
// caches. A prediction tells costly steps from cheap ones if it is within a factor of three.
#include "passes/cost/scalar_cycles.h"

#include "passes/cost/cost_model.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

struct Measured {
  std::string types, body;
  double microseconds;
};

/// The sum over the steps of a model, with AVX-512.
double predicted_microseconds(const Measured& m) {
  const Target target = host_target({"x86-64-v4"});
  const auto made =
      prepare("<ir_version: 10, opset_import: [\"\" : 22]>\nm " + m.types + " {" + m.body + "}", "", "", target);
  INFO(made->diags.text());
  REQUIRE(made->ok());
  std::vector<PlanningReport> reports;
  const auto plan = make_plan(*made->module, target, made->diags, {{}, {}}, reports);
  REQUIRE(plan);
  const CostModel costs(*plan, *made->module, ceilings_of(target));
  double seconds = 0;
  for (const Step& step : plan->blocks[0].steps) seconds += costs.of(step, 0).seconds;
  return seconds * 1e6;
}

void check(const Measured& m) {
  INFO(m.types << m.body);
  const double ratio = predicted_microseconds(m) / m.microseconds;
  CHECK(ratio > 1.0 / 3);
  CHECK(ratio < 3);
}

/// An op with operands of 100 x 200 elements of `dtype`.
Measured pairs(const std::string& dtype, const std::string& op, double microseconds) {
  const std::string type = dtype + "[100, 200] ";
  return {"(" + type + "a, " + type + "b) => (" + type + "y)", "y = " + op + "(a, b)", microseconds};
}
Measured each(const std::string& dtype, const std::string& op, double microseconds, const std::string& to = "") {
  return {"(" + dtype + "[100, 200] a) => (" + (to.empty() ? dtype : to) + "[100, 200] y)", "y = " + op + "(a)",
          microseconds};
}
Measured top_k(int lines, int length, int k, double microseconds) {
  const std::string l = std::to_string(lines), n = std::to_string(length), of = std::to_string(k);
  return {"(float[" + l + ", " + n + "] x) => (float[" + l + ", " + of + "] v, int64[" + l + ", " + of +
              "] i) <int64[1] k = {" + of + "}>",
          "v, i = TopK(x, k)", microseconds};
}

}  // namespace

TEST_CASE("predicted times of elements that are computed one by one") {
  for (const Measured& m : {
           pairs("int64", "Div", 71),
           pairs("int64", "Mod", 83),
           pairs("int32", "Div", 42),
           pairs("int32", "Mod", 56),
           pairs("uint8", "Mod", 42),
           pairs("float", "Div", 9),
           pairs("float", "Pow", 120),
           pairs("double", "Pow", 266),
           pairs("float16", "Pow", 426),
           pairs("float", "Mod <fmod = 1>", 214),
           pairs("float16", "Mod <fmod = 1>", 355),
           each("float", "Exp", 8),
           each("float", "Sin", 25),
           each("float", "Tan", 27),
           each("float16", "Exp", 18),
           each("float16", "Abs", 10.4),
           each("double", "Exp", 103),
           each("double", "Erf", 261),
           each("double", "Tanh", 425),
           each("double", "Abs", 17.5),
           each("float", "Cast <to = 10>", 18, "float16"),
           each("float", "Bernoulli", 178),
           each("float", "RandomUniformLike", 152),
           each("float", "RandomNormalLike", 798),
       })
    check(m);
}

TEST_CASE("predicted times of sorting") {
  for (const Measured& m :
       {top_k(20, 1000, 1, 14.6), top_k(20, 1000, 5, 21), top_k(20, 1000, 20, 120), top_k(20, 1000, 50, 177),
        top_k(20, 1000, 200, 429), top_k(20, 1000, 500, 777), top_k(20, 1000, 1000, 1292), top_k(1, 20000, 5, 19.6),
        top_k(1, 20000, 50, 29), top_k(1, 20000, 500, 107), top_k(1, 20000, 5000, 598), top_k(1, 20000, 20000, 1977)})
    check(m);
}

TEST_CASE("predicted times of memory in another order than that of vectors") {
  const std::string matrix = "(float[256, 256] x) => (float[256, 256] y)";
  const std::string image = "(float[1, 8, 48, 48] x) => (float[1, 8, ";
  for (const Measured& m : {
           Measured{matrix, "y = Softmax <axis = 1> (x)", 28},
           Measured{matrix, "y = Transpose <perm = [1, 0]> (x)", 95},
           Measured{"(float[1000, 1000] x) => (float[1000] y) <int64[1] a = {0}>",
                    "y = ReduceSum <keepdims = 0> (x, a)", 168},
           Measured{"(float[256, 256] x) => (int64[1, 256] y)", "y = ArgMax <axis = 0> (x)", 89},
           Measured{"(float[256, 256] x) => (int64[256, 1] y)", "y = ArgMax <axis = 1> (x)", 85},
           Measured{matrix + " <int64 a = {0}>", "y = CumSum(x, a)", 57},
           Measured{"(float[100, 200] x, int64[100, 200] i) => (float[100, 200] y)",
                    "y = GatherElements <axis = 0> (x, i)", 45},
           Measured{"(float[100, 200] x, int64[100, 200] i, float[100, 200] u) => (float[100, 200] y)",
                    "y = ScatterElements <axis = 1, reduction = \"max\"> (x, i, u)", 46},
           Measured{image + "48, 48] y)", "y = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (x)", 44},
           Measured{image + "24, 24] y)", "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)", 15},
           Measured{image + "21, 21] y)", "y = AveragePool <kernel_shape = [7, 7], strides = [2, 2]> (x)", 35},
           Measured{image + "48, 48] y)", "y = LRN <size = 5> (x)", 289},
           Measured{image + "96, 96] y) <float[4] s = {1, 1, 2, 2}>", "y = Resize <mode = \"cubic\"> (x, , s)", 118},
           Measured{"(float[1, 200, 4] b, float[1, 2, 200] s) => (int64[n, 3] y) <int64[1] most = {100}>",
                    "y = NonMaxSuppression(b, s, most)", 52},
       })
    check(m);
}

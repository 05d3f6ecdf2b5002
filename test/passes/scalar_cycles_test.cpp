// Predicted times of steps beside measured ones: the least of 60 runs on one Sapphire Rapids core, with operands in its
// caches. A prediction tells costly steps from cheap ones if it is within a factor of three.
#include "passes/cost/scalar_cycles.h"

#include "passes/cost/cost_model.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

struct MeasuredStep {
  std::string types, body;
  double microseconds;
};

/// The sum over the steps of a model, with AVX-512.
double predicted_microseconds(const MeasuredStep& m) {
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

void check_prediction(const MeasuredStep& m) {
  INFO(m.types << m.body);
  const double ratio = predicted_microseconds(m) / m.microseconds;
  CHECK(ratio > 1.0 / 3);
  CHECK(ratio < 3);
}

/// An op with operands of 100 x 200 elements of `dtype`.
MeasuredStep step_of_pairs(const std::string& dtype, const std::string& op, double microseconds) {
  const std::string type = dtype + "[100, 200] ";
  return {"(" + type + "a, " + type + "b) => (" + type + "y)", "y = " + op + "(a, b)", microseconds};
}
MeasuredStep step_of_each(const std::string& dtype, const std::string& op, double microseconds,
                          const std::string& to = "") {
  return {"(" + dtype + "[100, 200] a) => (" + (to.empty() ? dtype : to) + "[100, 200] y)", "y = " + op + "(a)",
          microseconds};
}
MeasuredStep step_of_top_k(int lines, int length, int k, double microseconds) {
  const std::string l = std::to_string(lines), n = std::to_string(length), of = std::to_string(k);
  return {"(float[" + l + ", " + n + "] x) => (float[" + l + ", " + of + "] v, int64[" + l + ", " + of +
              "] i) <int64[1] k = {" + of + "}>",
          "v, i = TopK(x, k)", microseconds};
}

}  // namespace

TEST_CASE("predicted times of elements that are computed one by one") {
  for (const MeasuredStep& m : {
           step_of_pairs("int64", "Div", 71),
           step_of_pairs("int64", "Mod", 83),
           step_of_pairs("int32", "Div", 42),
           step_of_pairs("int32", "Mod", 56),
           step_of_pairs("uint8", "Mod", 42),
           step_of_pairs("float", "Div", 9),
           step_of_pairs("float", "Pow", 120),
           step_of_pairs("double", "Pow", 266),
           step_of_pairs("float16", "Pow", 426),
           step_of_pairs("float", "Mod <fmod = 1>", 214),
           step_of_pairs("float16", "Mod <fmod = 1>", 355),
           step_of_each("float", "Exp", 8),
           step_of_each("float", "Sin", 25),
           step_of_each("float", "Tan", 27),
           step_of_each("float16", "Exp", 18),
           step_of_each("float16", "Abs", 10.4),
           step_of_each("double", "Exp", 103),
           step_of_each("double", "Erf", 261),
           step_of_each("double", "Tanh", 425),
           step_of_each("double", "Abs", 17.5),
           step_of_each("float", "Cast <to = 10>", 18, "float16"),
           step_of_each("float", "Bernoulli", 178),
           step_of_each("float", "RandomUniformLike", 152),
           step_of_each("float", "RandomNormalLike", 798),
       })
    check_prediction(m);
}

TEST_CASE("predicted times of sorting") {
  for (const MeasuredStep& m :
       {step_of_top_k(20, 1000, 1, 14.6), step_of_top_k(20, 1000, 5, 21), step_of_top_k(20, 1000, 20, 120),
        step_of_top_k(20, 1000, 50, 177), step_of_top_k(20, 1000, 200, 429), step_of_top_k(20, 1000, 500, 777),
        step_of_top_k(20, 1000, 1000, 1292), step_of_top_k(1, 20000, 5, 19.6), step_of_top_k(1, 20000, 50, 29),
        step_of_top_k(1, 20000, 500, 107), step_of_top_k(1, 20000, 5000, 598), step_of_top_k(1, 20000, 20000, 1977)})
    check_prediction(m);
}

TEST_CASE("predicted times of memory in another order than that of vectors") {
  const std::string matrix = "(float[256, 256] x) => (float[256, 256] y)";
  const std::string image = "(float[1, 8, 48, 48] x) => (float[1, 8, ";
  for (const MeasuredStep& m : {
           MeasuredStep{matrix, "y = Softmax <axis = 1> (x)", 28},
           MeasuredStep{matrix, "y = Transpose <perm = [1, 0]> (x)", 95},
           MeasuredStep{"(float[1000, 1000] x) => (float[1000] y) <int64[1] a = {0}>",
                        "y = ReduceSum <keepdims = 0> (x, a)", 168},
           MeasuredStep{"(float[256, 256] x) => (int64[1, 256] y)", "y = ArgMax <axis = 0> (x)", 89},
           MeasuredStep{"(float[256, 256] x) => (int64[256, 1] y)", "y = ArgMax <axis = 1> (x)", 85},
           MeasuredStep{matrix + " <int64 a = {0}>", "y = CumSum(x, a)", 57},
           MeasuredStep{"(float[100, 200] x, int64[100, 200] i) => (float[100, 200] y)",
                        "y = GatherElements <axis = 0> (x, i)", 45},
           MeasuredStep{"(float[100, 200] x, int64[100, 200] i, float[100, 200] u) => (float[100, 200] y)",
                        "y = ScatterElements <axis = 1, reduction = \"max\"> (x, i, u)", 46},
           MeasuredStep{image + "48, 48] y)", "y = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (x)", 44},
           MeasuredStep{image + "24, 24] y)", "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)", 15},
           MeasuredStep{image + "21, 21] y)", "y = AveragePool <kernel_shape = [7, 7], strides = [2, 2]> (x)", 35},
           MeasuredStep{image + "48, 48] y)", "y = LRN <size = 5> (x)", 289},
           MeasuredStep{image + "96, 96] y) <float[4] s = {1, 1, 2, 2}>", "y = Resize <mode = \"cubic\"> (x, , s)",
                        118},
           MeasuredStep{"(float[1, 200, 4] b, float[1, 2, 200] s) => (int64[n, 3] y) <int64[1] most = {100}>",
                        "y = NonMaxSuppression(b, s, most)", 52},
       })
    check_prediction(m);
}

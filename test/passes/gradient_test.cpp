// Gradients against differences: each rule of a record in a small model, evaluated in double precision.
#include <doctest/doctest.h>

#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// y is the sum of z, which `body` computes from x and w; the gradients of y where there is room for them.
std::string model_of(const std::string& body, bool with_gradient) {
  const std::string gradient = R"(dx, dw = ai.onnx.preview.training.Gradient<xs = ["x", "w"], y = "y">(x, w))";
  return "<ir_version: 10, opset_import: [\"\" : 20, \"ai.onnx.preview.training\" : 1]>\n"
         "m (double[2, 3] x, double[3, 2] w) => (double y" +
         std::string(with_gradient ? ", double[2, 3] dx, double[3, 2] dw" : "") +
         ") <double two = {2}, double[2, 1] column = {0.5, -2}, bool[3] mask = {1, 0, 1}, int64[1] zero = {0}, "
         "int64[1] one = {1}, int64[1] six = {6}, int64[3] more = {4, 2, 3}, double four = {4}, double low = {-0.2}, "
         "int64[4] border = {1, -1, 0, 2}> {\n" +
         body + "\n y = ReduceSum<keepdims = 0>(z)\n" + (with_gradient ? gradient : "") + "}";
}

double value_at(const Module& module, const std::vector<Tensor>& inputs) {
  const EvalResult result = evaluate(module, inputs);
  REQUIRE(result.error.empty());
  return result.outputs[0].at(0);
}

void check_gradient(const std::string& body) {
  CAPTURE(body);
  const auto forward = prepare(model_of(body, false), "", "decompose");
  const auto both = prepare(model_of(body, true), "", "decompose");
  INFO(both->diags.text());
  REQUIRE(forward->ok());
  REQUIRE(both->ok());
  std::vector<Tensor> inputs = seeded_inputs(*forward->module);
  const EvalResult made = evaluate(*both->module, inputs);
  REQUIRE(made.error.empty());
  constexpr double kStep = 1e-6;
  for (size_t k = 0; k < inputs.size(); ++k)
    for (int64_t i = 0; i < inputs[k].size(); ++i) {
      const double at = inputs[k].real[i];
      inputs[k].real[i] = at + kStep;
      const double above = value_at(*forward->module, inputs);
      inputs[k].real[i] = at - kStep;
      const double below = value_at(*forward->module, inputs);
      inputs[k].real[i] = at;
      CHECK(made.outputs[1 + k].at(i) == doctest::Approx((above - below) / (2 * kStep)).epsilon(1e-4));
    }
}

}  // namespace

TEST_CASE("gradients are the limits of differences") {
  for (const char* body : {
           "z = MatMul(x, w)",
           "t = Transpose(w) a = Mul(x, t) b = Add(a, column) z = Tanh(b)",
           "t = Reshape(w, six) f = Reshape(x, six) a = Sub(f, t) z = Mul(a, a)",
           "e = Exp(x) l = Log(e) s = Sqrt(e) a = Div(l, s) t = Transpose(w) z = Div(t, e)",
           "e = Exp(x) d = Div(two, e) r = Reciprocal(e) p = Pow(e, two) a = Add(d, r) z = Mul(a, p)",
           "a = Sin(x) b = Cos(x) c = Mul(a, b) d = Sigmoid(c) e = Neg(d) z = Erf(e)",
           "a = Relu(x) t = Transpose(w) b = Relu(t) c = Abs(t) d = Mul(a, b) z = Add(c, d)",
           "s = Softmax<axis = 1>(x) z = MatMul(s, w)",
           "a = ReduceMean<keepdims = 0>(x, one) b = ReduceMax<keepdims = 1>(w, one) c = ReduceMin<keepdims = 0>(w, "
           "one) "
           "d = Mul(b, c) e = ReduceSum<keepdims = 0>(d) z = Mul(a, e)",
           "t = Transpose(w) c = Concat<axis = 0>(x, t, x) z = Mul(c, c)",
           "t = Transpose(w) c = Where(mask, x, t) z = Mul(c, c)",
           "t = Transpose(w) a = Max(x, t) b = Min(x, t) z = Div(a, b)",
           "e = Expand(x, more) t = Transpose(w) z = Mul(e, t)",
           "p, q = Split<axis = 1, num_outputs = 2>(x) r = Slice(x, zero, one, one) z = Mul(p, r)",
           "c = Identity(x) z = Mul(c, two)",
           "a = Tan(x) b = Sinh(a) c = Cosh(x) z = Add(b, c)",
           "a = Div(x, two) b = Asin(a) c = Acos(a) d = Atan(x) e = Mul(b, c) z = Mul(d, e)",
           "a = Asinh(x) e = Exp(x) b = Add(e, two) c = Acosh(b) d = Div(x, two) f = Atanh(d) g = Mul(a, c) z = Mul(f, "
           "g)",
           "a = Softplus(x) b = Softsign(a) c = Mish(x) z = Mul(b, c)",
           "a = Mul(x, four) b = HardSwish(a) c = HardSigmoid<alpha = 0.3, beta = 0.4>(a) z = Mul(b, c)",
           "a = Elu<alpha = 1.5>(x) b = Celu<alpha = 0.5>(x) c = Selu(x) d = Mul(a, b) z = Mul(c, d)",
           "a = LeakyRelu<alpha = 0.3>(x) t = Transpose(w) b = PRelu(x, t) z = Mul(a, b)",
           "a = ThresholdedRelu<alpha = 0.2>(x) b = Shrink<lambd = 0.3, bias = 0.1>(x) z = Mul(a, b)",
           "a = Mul(x, four) t = Transpose(w) e = Exp(t) z = Mod<fmod = 1>(a, e)",
           "e = Exp(x) t = Transpose(w) z = Pow(e, t)",
           "a = ReduceProd<keepdims = 0>(x, one) b = ReduceProd<keepdims = 1>(w, zero) z = Mul(b, a)",
           "a = CumSum(x, one) b = CumSum<exclusive = 1, reverse = 1>(w, zero) t = Transpose(b) z = Mul(a, t)",
           "a = Pad(x, border) z = Mul(a, a)",
           "a = Gelu(x) b = LogSoftmax(x) c = Mul(a, b) d = Clip(c, low) z = Mul(d, d)",
           "f = Floor(x) z = Add(f, x)",
       })
    check_gradient(body);
}

TEST_CASE("gradients where functions have kinks are those of PyTorch 2.15") {
  const auto derivatives = [](const std::string& body, const std::vector<double>& at) {
    const std::string count = std::to_string(at.size());
    const auto made =
        prepare("<ir_version: 10, opset_import: [\"\" : 20, \"ai.onnx.preview.training\" : 1]>\nm (double[" + count +
                    "] x) => (double[" + count + "] dx) <double zero = {0}, double one = {1}> {" + body +
                    R"( y = ReduceSum<keepdims = 0>(z)
dx = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(x) })",
                "", "decompose");
    INFO(made->diags.text());
    REQUIRE(made->ok());
    Tensor x(DType::F64, {static_cast<int64_t>(at.size())});
    x.real = at;
    return evaluate(*made->module, {x}).outputs[0].real;
  };
  using Numbers = std::vector<double>;
  CHECK(derivatives("z = Relu(x)", {-1, 0, 1}) == Numbers{0, 0, 1});
  CHECK(derivatives("z = Abs(x)", {-1, 0, 1}) == Numbers{-1, 0, 1});
  CHECK(derivatives("z = LeakyRelu<alpha = 0.25>(x)", {-1, 0, 1}) == Numbers{0.25, 0.25, 1});
  CHECK(derivatives("z = Elu<alpha = 0.5>(x)", {0, 1}) == Numbers{0.5, 1});
  CHECK(derivatives("z = Celu<alpha = 0.5>(x)", {0, 1}) == Numbers{1, 1});
  CHECK(derivatives("z = HardSwish(x)", {-3, 3, 4}) == Numbers{0, 1, 1});
  CHECK(derivatives("z = HardSigmoid<alpha = 0.25, beta = 0.5>(x)", {-2, 0, 2}) == Numbers{0, 0.25, 0});
  CHECK(derivatives("z = ThresholdedRelu<alpha = 1.0>(x)", {1, 2}) == Numbers{0, 1});
  CHECK(derivatives("z = Shrink<lambd = 1.0, bias = 0.5>(x)", {-1, 1, 2}) == Numbers{0, 0, 1});
  CHECK(derivatives("z = Max(x, one)", {0, 1, 2}) == Numbers{0, 0.5, 1});
  CHECK(derivatives("z = Min(x, one)", {0, 1, 2}) == Numbers{1, 0.5, 0});
  CHECK(derivatives("z = Pow(x, zero)", {0, 2}) == Numbers{0, 0});
  CHECK(derivatives("z = Pow(zero, x)", {0, 2}) == Numbers{0, 0});
  CHECK(derivatives("z = ReduceProd<keepdims = 0>(x)", {0, 3, 4}) == Numbers{12, 0, 0});
  CHECK(derivatives("z = ReduceProd<keepdims = 0>(x)", {0, 0, 4}) == Numbers{0, 0, 0});
  CHECK(derivatives("z = ReduceMax<keepdims = 0>(x)", {4, 3, 4}) == Numbers{0.5, 0, 0.5});
  CHECK(derivatives("a = Round(x) b = Sign(x) c = Ceil(x) d = Add(a, b) z = Add(c, d)", {0.5, 2}) == Numbers{0, 0});
}

TEST_CASE("every pointwise op of real numbers says what its gradient is") {
  // Conversions between numbers of several widths, and the name of a length, are not what training differentiates.
  const std::set<std::string> others = {"NameLength", "RoundedCast", "Saturate"};
  for (const OpDef* def : all_op_defs())
    if (def->category == Category::Pointwise && def->value && !others.contains(def->name))
      CHECK_MESSAGE((def->gradient || def->decompose), def->name);
}

TEST_CASE("a gradient of a gradient") {
  const auto made = prepare(
      R"(<ir_version: 10, opset_import: ["" : 20, "ai.onnx.preview.training" : 1]>
m (double[3] x) => (double[3] second) {
  a = Mul(x, x) b = Mul(a, x) y = ReduceSum<keepdims = 0>(b)
  first = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(x)
  second = ai.onnx.preview.training.Gradient<xs = ["x"], y = "first">(x)
})",
      "", "decompose");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  Tensor x(DType::F64, {3});
  x.real = {1, -2, 0.5};
  CHECK(evaluate(*made->module, {x}).outputs[0].real == std::vector<double>{6, -12, 3});
}

TEST_CASE("gradients that cannot be computed are refused") {
  const auto id = [](const std::string& gradient, const std::string& body = "y = Tanh(x)") {
    const auto made = prepare(
        "<ir_version: 10, opset_import: [\"\" : 20, \"ai.onnx.preview.training\" : 1]>\n"
        "m (float[3] x, float[3] w) => (float[3] dx) {" +
            body + " dx = ai.onnx.preview.training.Gradient<" + gradient + "}",
        "", "decompose");
    return made->diags.all().empty() ? "" : made->diags.all()[0].id;
  };
  CHECK(id(R"(xs = ["x"], y = "y">(x))") == "");
  CHECK(id(R"(xs = ["w"], y = "y">(w))") == "");  // which y does not depend on: zeros
  CHECK(id(R"(xs = ["x"], y = "y">(w))") == "gradient-elsewhere-unsupported");
  CHECK(id(R"(xs = ["x"]>(x))") == "gradient-name");
  CHECK(id(R"(xs = ["x"], y = "">(x))") == "gradient-name");
  CHECK(id(R"(xs = ["x"], y = "y">(x))", "y = Tanh(x) dz,") == "gradient-names");
  CHECK(id(R"(xs = ["x"], y = "y">(x))", R"(y = Tanh(x) c = Constant<value = bool {1}>() r = If(c)<
    then_branch = a () => (float[3] d) { d = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(x) },
    else_branch = b () => (float[3] e) { e = Neg(x) }>)") == "gradient-subgraph-unsupported");
  CHECK(id(R"(xs = ["x"], y = "nothing">(x))") == "undefined-value");
  CHECK(id(R"(xs = ["x"], y = "y">(x))", "y = Gather(x, n) n = Constant<value = int64 {0}>()") ==
        "gradient-unsupported");
}

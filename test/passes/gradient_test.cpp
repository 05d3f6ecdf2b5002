// Gradients against differences: each rule of a record in a small model, evaluated in double precision.
#include <doctest/doctest.h>

#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// y is the sum of z, which `body` computes from x and w; the gradients of y where there is room for them.
std::string model_of(const std::string& inputs, const std::string& body, bool with_gradient) {
  const auto with_names = [&](std::string text) {
    for (const char* name : {"x", "w"})
      text.replace(text.find(std::string("] ") + name) + 2, 1, std::string("d") + name);
    return text;
  };
  const std::string gradient = R"(dx, dw = ai.onnx.preview.training.Gradient<xs = ["x", "w"], y = "y">(x, w))";
  return "<ir_version: 10, opset_import: [\"\" : 20, \"ai.onnx.preview.training\" : 1]>\n"
         "m (" +
         inputs + ") => (double y" + (with_gradient ? ", " + with_names(inputs) : "") +
         ") <int64[2] ends = {1, 2}, float[4] scales = {1, 1, 2, 1.5}, double two = {2}, double[2, 1] column = {0.5, "
         "-2}, bool[3] mask = {1, 0, 1}, int64[1] zero = {0}, "
         "int64[1] one = {1}, int64[1] six = {6}, int64[3] more = {4, 2, 3}, double four = {4}, double low = {-0.2}, "
         "int64[4] border = {1, -1, 0, 2}, int64[3] pair = {2, 1, 1}, int64[2] two_one = {1, -1}, int64[2] far = {-9, "
         "-9}, "
         "int64[2] both = {0, 1}, int64[2] back = {-1, -2}, int64[1] three = {3}, int64[1] two_steps = {2}, "
         "int64[4] border_all = {1, 1, 0, 1}, int64[2, 2] picks = {2, 0, -1, 1}, int64 last = {-1}, double[2] half = "
         "{0.5, 2}, int64[2, 3] places = {0, -1, 0, 1, 1, 2}, int64[2, 1] column_places = {-1, 1}, "
         "int64[2, 2] tuples = {0, 1, -1, 0}, int64[2, 1] batch_tuples = {2, -3}, int64[2, 3] distinct = {2, 0, 1, 0, "
         "1, 2}, int64[1] two_of = {2}, double[3] three_scale = {0.5, 2, -1}, double[3] three_bias = {0.1, 0.2, 0.3}, "
         "int64[2] one_six = {1, 6}, int64[1] label = {4}, int64[2] labels = {-1, 2}, int64[2] labels_of_two = {0, 1}, "
         "double[2] class_weights = {0.5, 2}, double[3] class_weights_of_three = {0.5, 2, 1}> {\n" +
         body + "\n y = ReduceSum<keepdims = 0>(z)\n" + (with_gradient ? gradient : "") + "}";
}

double value_at(const Module& module, const std::vector<Tensor>& inputs) {
  const EvalResult result = evaluate(module, inputs);
  REQUIRE(result.error.empty());
  return result.outputs[0].at(0);
}

/// Both derivatives of the sum of z, which `body` computes from x and w, against differences.
void check_gradient_of(const std::string& ports, const std::string& body) {
  CAPTURE(ports);
  CAPTURE(body);
  const auto forward = prepare(model_of(ports, body, false), "", "decompose");
  const auto both = prepare(model_of(ports, body, true), "", "decompose");
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

void check_gradient(const std::string& body) { check_gradient_of("double[2, 3] x, double[3, 2] w", body); }

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
           "r = Relu(column) l = Log(r) a = Add(x, l) s = Softmax<axis = 1>(a) n = IsNaN(s) o = Sub(two, two) "
           "c = Where(n, o, s) z = MatMul(c, w)",
           "r = Relu(column) l = Log(r) a = Add(x, l) s = Softmax<axis = 1>(a) n = IsInf(l) o = Sub(two, two) "
           "c = Where(n, o, s) z = MatMul(c, w)",
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
           "a = LogSoftmax<axis = 0>(x) t = Transpose(w) z = Mul(a, t)",
           "e = Expand(w, one) z = MatMul(x, e)",
           "b = Expand(x, pair) c = MatMul(b, w) z = Mul(c, c)",
           "r = Slice(x, two_one, far, both, back) s = Slice(w, zero, three, zero, two_steps) a = Transpose(r) "
           "z = MatMul(s, r)",
           "a = Pad<mode = \"reflect\">(x, border_all) b = Pad<mode = \"edge\">(a, border_all) "
           "c = Pad<mode = \"wrap\">(b, border_all) z = Mul(c, c)",
           "a = Gather<axis = 1>(x, picks) b = Gather<axis = 0>(w, last) c = Mul(a, a) z = Mul(c, half)",
           "b = Gather<axis = 0>(w, last) z = Mul(b, b)",
           "a = GatherElements<axis = 1>(x, places) b = GatherElements<axis = 1>(x, column_places) c = Mul(a, b) z = "
           "Mul(c, c)",
           "a = GatherND(w, tuples) b = GatherND<batch_dims = 1>(x, batch_tuples) z = Mul(a, b)",
           "t = Transpose(w) a = ScatterElements<axis = 1, reduction = \"add\">(x, places, t) z = Mul(a, a)",
           "t = Transpose(w) a = ScatterElements<axis = 1>(x, distinct, t) z = Mul(a, x)",
           "a = GatherND(w, tuples) b = ScatterND(w, tuples, a) c = Mul(b, w) d = ScatterND<reduction = \"add\">(c, "
           "tuples, a) z = Mul(d, d)",
           "v, i = TopK<axis = 1>(x, two_of) z = Mul(v, v)",
           "a = LayerNormalization(x, three_scale, three_bias) t = Transpose(w) z = Mul(a, t)",
           "s = ReduceSum<keepdims = 0>(w, one) a = LayerNormalization<axis = 0>(w, w, w) b, m, d = "
           "LayerNormalization(x, s) e = Mul(b, d) f = Transpose(a) g = Add(f, m) z = Mul(g, e)",
           "r = Reshape(x, one_six) z = SoftmaxCrossEntropyLoss(r, label)",
           "t = Transpose(w) a = Mul(x, t) z, l = SoftmaxCrossEntropyLoss<ignore_index = -1, reduction = \"sum\">(a, "
           "labels)",
           "a = MatMul(x, w) z = SoftmaxCrossEntropyLoss<reduction = \"none\">(a, labels_of_two)",
           "a = MatMul(x, w) z = SoftmaxCrossEntropyLoss(a, labels_of_two, class_weights)",
           "a = LogSoftmax(x) z = NegativeLogLikelihoodLoss(a, labels_of_two, class_weights_of_three)",
       })
    check_gradient(body);
}

TEST_CASE("gradients of windows over images") {
  const auto check = [](const std::string& image, const std::string& filters, const std::string& body) {
    check_gradient_of("double[" + image + "] x, double[" + filters + "] w", body);
  };
  for (const char* attrs : {"", "<pads = [1, 0, 2, 1]>", "<strides = [2, 3]>",
                            "<strides = [2, 2], pads = [1, 1, 1, 1]>", "<dilations = [2, 1], pads = [1, 1, 1, 1]>",
                            "<strides = [2, 1], dilations = [1, 2], auto_pad = \"SAME_UPPER\">"}) {
    check("2, 3, 6, 7", "4, 3, 3, 2", std::string("c = Conv") + attrs + "(x, w) z = Mul(c, c)");
    check("2, 3, 4, 3", "3, 2, 3, 2", std::string("c = ConvTranspose") + attrs + "(x, w) z = Mul(c, c)");
  }
  check("2, 4, 5, 5", "6, 2, 2, 3", "c = Conv<group = 2>(x, w) z = Mul(c, c)");
  check("1, 3, 5, 5", "3, 1, 3, 3", "c = Conv<group = 3, pads = [1, 1, 1, 1]>(x, w) z = Mul(c, c)");
  check("2, 2, 7", "3, 2, 3", "r = ReduceSum<keepdims = 0>(w, ends) c = Conv<strides = [2]>(x, w, r) z = Mul(c, c)");
  check("1, 2, 3, 4, 3", "2, 2, 2, 2, 2", "c = Conv<strides = [1, 2, 1]>(x, w) z = Mul(c, c)");
  check("2, 4, 3", "4, 1, 3", "c = ConvTranspose<group = 2, strides = [2], output_padding = [1]>(x, w) z = Mul(c, c)");
  for (const char* attrs :
       {"kernel_shape = [2, 2]", "kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 1]",
        "kernel_shape = [2, 3], strides = [2, 2], ceil_mode = 1", "kernel_shape = [2, 2], dilations = [2, 1]"}) {
    check("2, 2, 5, 6", "1", std::string("p = MaxPool<") + attrs + ">(x) q = Mul(p, p) z = Mul(q, w)");
    check("2, 2, 5, 6", "1", std::string("p = AveragePool<") + attrs + ">(x) q = Mul(p, p) z = Mul(q, w)");
  }
  check("2, 2, 5, 6", "1",
        "p = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>(x) q = Mul(p, p) z = "
        "Mul(q, w)");
  check("2, 3, 4", "1", "a = GlobalAveragePool(x) b = GlobalMaxPool(x) c = Mul(a, b) z = Mul(c, w)");
  check("1, 2, 3, 3", "1", "r = Resize<mode = \"linear\">(x, , scales) s = Mul(r, r) z = Mul(s, w)");
}

TEST_CASE("gradients where functions have kinks are those of PyTorch 2.15") {
  const auto derivatives = [](const std::string& body, const std::vector<double>& at, int opset = 26) {
    const std::string count = std::to_string(at.size());
    const auto made =
        prepare("<ir_version: 10, opset_import: [\"\" : " + std::to_string(opset) +
                    ", \"ai.onnx.preview.training\" : 1]>\nm (double[" + count + "] x) => (double[" + count +
                    "] dx) <double zero = {0}, double one = {1}, int64[1] p0 = {0}, int64[1] p1 = {1}, int64[1] p9 = "
                    "{9}, int64 axis = {0}, int64[3] rows = {1, 1, -1}> {" +
                    body +
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
  CHECK(derivatives("z = Clip<max = 1.0, min = 0.0>(x)", {-1, 0, 0.5, 1, 2}, 10) == Numbers{0, 0, 1, 0, 0});
  CHECK(derivatives("z = Clip(x, zero, one)", {-1, 0, 0.5, 1, 2}) == Numbers{0, 0, 1, 0, 0});
  CHECK(derivatives("l = Slice(x, p0, p1) r = Slice(x, p1, p9) l0 = Squeeze(l) z = Clip(r, l0)", {0.5, 0.25, 0.5, 1}) ==
        Numbers{1.5, 0, 0.5, 1});
  CHECK(derivatives("z = ReduceL2<keepdims = 0>(x)", {0, 0}) == Numbers{0, 0});
  CHECK(derivatives("z = ReduceL1<keepdims = 0>(x)", {0, 0, -1}) == Numbers{0, 0, -1});
  CHECK(derivatives("r = Reshape(x, rows) z = LpPool<kernel_shape = [2], strides = [2], p = 1>(r)", {0, 0, 0, 2}) ==
        Numbers{0, 0, 0, 1});
  CHECK(derivatives("r = Reshape(x, rows) z = LpPool<kernel_shape = [2], strides = [2]>(r)", {0, 0, 0, 2}) ==
        Numbers{0, 0, 0, 1});
  CHECK(derivatives("r = Reshape(x, rows) z = GlobalLpPool(r)", {0, 0, 0}) == Numbers{0, 0, 0});
  CHECK(derivatives("r = Reshape(x, rows) z = GlobalMaxPool(r)", {1, 2, 2}) == Numbers{0, 1, 0});
  CHECK(derivatives("z = CumProd(x, axis)", {2, 0, 3, 0, 4}) == Numbers{1, 8, 0, 0, 0});
  CHECK(derivatives("z = CumProd<exclusive = 1, reverse = 1>(x, axis)", {4, 0, 3, 2}) == Numbers{0, 6, 2, 4});
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
  CHECK(id(R"(xs = ["x"], y = "y">(x))",
           "y = ScatterElements<reduction = \"max\">(x, n, x) n = Constant<value = int64[3] {0, 1, 1}>()") ==
        "gradient-unsupported");
}

// Divisions after products: cases in which they move or stay, with the model's results in both.
#include "ir/base/text.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr int64_t kRows = 6, kKeys = 10;

std::string model(const std::string& nodes, const std::string& outputs = "float[2,6,4] y",
                  const std::string& dtype = "float") {
  return "<ir_version: 10, opset_import: [\"\" : 20]>\nm (" + dtype + "[2,6,10] x, " + dtype + "[2,10,4] v, " + dtype +
         "[2,10,8] wide) => (" + outputs + ") <float zero = {0}, float one = {1}, int64[1] last = {-1}> {\n" + nodes +
         "}\n";
}

/// How many divisions follow a product.
int late_divisions(const std::string& source, const std::string& yaml = "", Target target = {}) {
  const auto made = prepare(source, yaml, "divide-late", std::move(target));
  INFO(made->diags.text());
  REQUIRE(made->ok());
  const Graph& graph = made->module->graph;
  int count = 0;
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    count += op.kind == OpKind::Div && graph.producer_op(op.inputs[0]).kind == OpKind::MatMul;
  }
  return count;
}

/// The first result after all passes, of x whose first row is nothing but -infinity if `is_masked`.
Tensor result_of(const std::string& source, bool is_masked, const std::string& stop_after) {
  const auto made = prepare(source, "", stop_after);
  INFO(made->diags.text());
  REQUIRE(made->ok());
  std::vector<Tensor> inputs = seeded_inputs(*made->module);
  for (int64_t i = 0; is_masked && i < kKeys; ++i) inputs[0].put(i, -INFINITY);
  EvalResult result = evaluate(*made->module, inputs);
  REQUIRE(result.error.empty());
  return result.outputs[0];
}

const std::string kSoftmax = "[softmax] p = Softmax(x)\n";
const std::string kGuarded = kSoftmax + "n = IsNaN(p)\n w = Where(n, zero, p)\n";

}  // namespace

TEST_CASE("divide-late: a Softmax is divided after the product of values, also guarded and with rows joined") {
  CHECK(late_divisions(model(kSoftmax + "y = MatMul(p, v)\n")) == 1);
  CHECK(late_divisions(model(kGuarded + "y = MatMul(w, v)\n")) == 1);
  const std::string joined =
      "<ir_version: 10, opset_import: [\"\" : 20]>\nm (float[2,3,10] x, float[10,4] v) => "
      "(float[6,4] y) <int64[2] rows = {6, 10}> { p = Softmax(x) r = Reshape(p, rows) y = MatMul(r, v) }";
  CHECK(late_divisions(joined) == 1);
  CHECK(late_divisions(model(kSoftmax + "y = MatMul(p, v)\n", "double[2,6,4] y", "double")) == 1);
}

TEST_CASE("divide-late: divisions stay where others read the quotient, where they are fewer, and where rows differ") {
  CHECK(late_divisions(model(kSoftmax + "y = MatMul(p, v)\n", "float[2,6,4] y, float[2,6,10] p")) == 0);
  CHECK(late_divisions(model(kSoftmax + "y = MatMul(p, wide)\n", "float[2,6,8] y")) == 0);
  CHECK(late_divisions(model("p = Div(x, x)\n y = MatMul(p, v)\n")) == 0);
  CHECK(late_divisions(model("p = Div(x, one)\n q = Neg(p)\n y = MatMul(q, v)\n")) == 0);
  // A sum of other numbers may overflow unless they are divided first.
  CHECK(late_divisions(model("s = ReduceSum(x, last)\n p = Div(x, s)\n y = MatMul(p, v)\n")) == 0);
  // A guard says something of each element unless they are those of a Softmax.
  CHECK(late_divisions(model(
            "s = ReduceSum(x, last)\n p = Div(x, s)\n n = IsNaN(p)\n w = Where(n, zero, p)\n y = MatMul(w, v)\n")) ==
        0);
  CHECK(late_divisions(model(kSoftmax + "n = IsNaN(p)\n w = Where(n, one, p)\n y = MatMul(w, v)\n")) == 0);
  // Sums of 16-bit floats could outgrow their type.
  CHECK(late_divisions(model(kSoftmax + "y = MatMul(p, v)\n", "float16[2,6,4] y", "float16")) == 0);
  CHECK(late_divisions(model(kSoftmax + "y = MatMul(p, v)\n"), "", cuda_target({"sm_90"})) == 0);
}

TEST_CASE("divide-late: slices of rows are divided too, sums over sliced keys are not") {
  const std::string source = model(kSoftmax + "[mix] y = MatMul(p, v)\n");
  CHECK(late_divisions(source, "weft: 1\nmesh: {tp: 2}\nshard: {x: {tp: 0}, v: {tp: 0}}\n") == 1);
  CHECK(late_divisions(source, "weft: 1\nmesh: {cp: 2}\nshard: {x: {cp: 2}, v: {cp: 1}}\n") == 0);
  check_orders(plan_of(source, "weft: 1\nmesh: {tp: 2}\nshard: {x: {tp: 1}}\n"), 4);
}

TEST_CASE("divide-late: results are the model's, where a row is masked as a whole too") {
  for (const std::string& nodes : {kSoftmax + "y = MatMul(p, v)\n", kGuarded + "y = MatMul(w, v)\n"})
    for (const bool is_masked : {false, true}) {
      const Tensor wanted = result_of(model(nodes), is_masked, "decompose"),
                   found = result_of(model(nodes), is_masked, "");
      REQUIRE(wanted.dims == found.dims);
      for (int64_t i = 0; i < wanted.size(); ++i) {
        CHECK(std::isnan(wanted.at(i)) == std::isnan(found.at(i)));
        if (!std::isnan(wanted.at(i))) CHECK(found.at(i) == doctest::Approx(wanted.at(i)).epsilon(1e-5));
      }
    }
}

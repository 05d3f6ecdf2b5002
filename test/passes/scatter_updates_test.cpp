// Gradient descent on looked-up rows and on weights that stand transposed: updates are those of the formula, the table
// is updated in place, and what must stay dense does.
#include "test/passes/planned.h"
#include "test/passes/same_step.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// A table of 5 x 2 of which rows 3, 1, 1, 3 are looked up; the derivative by each is what multiplies it.
const std::string kTable =
    "<ir_version: 10, opset_import: [\"\" : 20]> m (float[4,2] x) => (float loss) <float[5,2] w = {1, 2, 3, 4, 5, 6, "
    "7, "
    "8, 9, 10}, int64[4] rows = {3, 1, 1, -2}> { p = Gather(w, rows) q = Mul(p, x) loss = ReduceSum<keepdims = 0>(q) }";

std::string descent(const std::string& optimizer) {
  return "weft: 1\ntrain:\n  loss: loss\n  optimizer: {" + optimizer + "}\n";
}

/// Scatters whose data are no zeros.
int scatters_into_data(const std::string& yaml) {
  const auto made = prepare(kTable, yaml, "scatter-updates");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  const Graph& graph = made->module->graph;
  int count = 0;
  for (const OpId id : graph.order())
    count += graph.op(id).kind == OpKind::ScatterND && graph.op(id).integer_or("onto_zeros", 0) == 0;
  return count;
}

}  // namespace

TEST_CASE("scatter-updates: descent without decay changes looked-up rows alone, in place") {
  const std::string yaml = descent("sgd: {rate: 0.5}");
  CHECK(scatters_into_data(yaml) == 1);
  check_same_step(kTable, yaml, "scatter-updates");
  const Planned made = plan_of(kTable, yaml);
  for (const StateSlot& state : made.plan.states)
    if (state.input == "w") CHECK_MESSAGE(state.in_place, state.why_copied);
  check_orders(made, 3);
}

TEST_CASE("scatter-updates: what changes or reads every row stays dense") {
  CHECK(scatters_into_data(descent("sgd: {rate: 0.5, weight_decay: 0.1}")) == 0);
  CHECK(scatters_into_data(descent("momentum: {rate: 0.5}")) == 0);
  CHECK(scatters_into_data(descent("adam: {rate: 0.5}")) == 0);
  CHECK(scatters_into_data(descent("sgd: {rate: 0.5}") + "  clip: {norm: 1}\n") == 0);
}

TEST_CASE("turn-products: the update after the derivative of a transposed weight has the values of the formula") {
  const std::string model =
      "<ir_version: 10, opset_import: [\"\" : 20]> m (float[5,3] x) => (float loss) <float[2,3] w = {1, 2, 3, 4, 5, "
      "6}> "
      "{ y = Gemm<transB = 1>(x, w) z = Tanh(y) loss = ReduceSum<keepdims = 0>(z) }";
  check_same_step(model, descent("sgd: {rate: 0.5}"), "scatter-updates");
  check_same_step(model, descent("sgd: {rate: 0.5, weight_decay: 0.1}"), "scatter-updates");
  check_orders(plan_of(model, descent("sgd: {rate: 0.5, weight_decay: 0.1}")), 3);
  CHECK(fused(model, descent("sgd: {rate: 0.5, weight_decay: 0.1}")).find("pointwise: Mul; ") == std::string::npos);
}

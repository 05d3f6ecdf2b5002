// Shows what infer and the reference of the basic ops give on small cases.
#include "ops_test.h"

#include <doctest/doctest.h>

namespace weftc {

TEST_CASE("every record stands at its kind and has what its category needs") {
  for (const OpDef* def : all_op_defs()) {
    CAPTURE(def->name);
    CHECK(&op_def(def->kind) == def);
    CHECK(parse_op_kind(def->name) == def->kind);
    CHECK(bool(def->infer) != bool(def->unfold));
    // The parts of a Gradient are those of a whole graph: a pass writes them.
    if (def->category == Category::Composite && def->kind != OpKind::Gradient) CHECK((def->decompose || def->unfold));
    if (def->category == Category::Pointwise) CHECK(def->scalar != nullptr);
    if (*def->onnx.name) CHECK(find_onnx_op(def->onnx.domain, def->onnx.name) == def);
  }
  CHECK(find_onnx_op("ai.onnx", "Add") == find_onnx_op("", "Add"));
  CHECK(find_onnx_op("", "NoSuchOp") == nullptr);
}

TEST_CASE("pointwise ops broadcast") {
  OneOp one;
  REQUIRE(one.add(OpKind::Sub, {one.input(reals({2, 1}, {10, 20})), one.input(reals({3}, {1, 2, 3}))}));
  const FactorRule rule = factor_rule(one.view());
  CHECK(rule.inputs == std::vector<std::vector<int>>{{0, -1}, {1}});
  CHECK(rule.outputs == std::vector<std::vector<int>>{{0, 1}});
  CHECK(one.run()[0].real == std::vector<double>{9, 8, 7, 19, 18, 17});
}

TEST_CASE("shapes that do not broadcast are refused") {
  OneOp one;
  CHECK(!one.add(OpKind::Add, {one.input(reals({2}, {1, 2})), one.input(reals({3}, {1, 2, 3}))}));
  CHECK(one.diags.all()[0].id == "broadcast-dims");
}

TEST_CASE("integer division truncates and does not trap") {
  OneOp one;
  REQUIRE(one.add(OpKind::Div, {one.input(ints({4}, {-7, 7, 1, INT64_MIN})), one.input(ints({4}, {2, -2, 0, -1}))}));
  CHECK(one.run()[0].integers == std::vector<int64_t>{-3, -3, 0, INT64_MIN});
}

TEST_CASE("matrix products broadcast their leading dimensions") {
  OneOp one;
  REQUIRE(one.add(OpKind::MatMul,
                  {one.input(reals({2, 1, 2}, {1, 2, 3, 4})), one.input(reals({2, 3}, {1, 0, 1, 0, 1, 1}))}));
  const FactorRule rule = factor_rule(one.view());
  CHECK(rule.inputs == std::vector<std::vector<int>>{{0, 1, 3}, {3, 2}});
  CHECK(rule.factors[3].role == Factor::Role::Reduce);
  const Tensor y = one.run()[0];
  CHECK(y.dims == Dims{2, 1, 3});
  CHECK(y.real == std::vector<double>{1, 2, 3, 3, 4, 7});
}

TEST_CASE("a vector times a matrix decomposes into matrices") {
  OneOp one;
  REQUIRE(one.add(OpKind::MatMul, {one.input(reals({2}, {1, 2})), one.input(reals({2, 2}, {1, 2, 3, 4}))}));
  const Tensor whole = one.run()[0];
  REQUIRE(one.decompose());
  CHECK(one.run()[0].real == whole.real);
  CHECK(whole.dims == Dims{2});
}

TEST_CASE("reductions keep or drop their dimensions") {
  OneOp one;
  REQUIRE(one.add(OpKind::ReduceMax, {one.input(reals({2, 2}, {1, 4, 3, 2}))},
                  {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{0}}}));
  CHECK(one.module.graph.op(one.op).ints("axes") == std::vector<int64_t>{1});
  CHECK(factor_rule(one.view()).factors[1].reduce == ReduceOp::Max);
  CHECK(one.run()[0].real == std::vector<double>{4, 3});
}

TEST_CASE("a reshape resolves 0 and -1") {
  OneOp one;
  REQUIRE(one.add(OpKind::Reshape, {one.input(reals({2, 3}, {1, 2, 3, 4, 5, 6}))},
                  {{"shape", std::vector<int64_t>{0, -1, 1}}}));
  CHECK(one.module.graph.op(one.op).ints("shape") == Dims{2, 3, 1});
}

TEST_CASE("a slice may run backwards") {
  OneOp one;
  REQUIRE(one.add(OpKind::Slice, {one.input(reals({4}, {1, 2, 3, 4}))},
                  {{"starts", std::vector<int64_t>{-1}},
                   {"ends", std::vector<int64_t>{-100}},
                   {"steps", std::vector<int64_t>{-2}}}));
  CHECK(one.run()[0].real == std::vector<double>{4, 2});
  CHECK(infer_op(one.module, one.module.graph, one.op, nullptr));  // the canonical form means the same
  CHECK(one.module.graph.type(one.module.graph.result(one.op)).dims() == Dims{2});
}

TEST_CASE("a run-time length survives what keeps its dimension whole") {
  OneOp one;
  const ValueId x = one.input(reals({1, 8, 4}, std::vector<double>(32)));
  const Extent rows = run_time_extent(8, Length::named("rows", 8));
  TensorType type = one.module.graph.type(x);
  type.shape[1] = rows;
  one.module.graph.retype(x, type);
  REQUIRE(one.add(OpKind::Reshape, {x}, {{"allowzero", int64_t{1}}, {"shape", Dims{1, 8, 2, 2}}}));
  CHECK(one.module.graph.type(one.module.graph.result(one.op)).shape[1] == rows);
  REQUIRE(one.add(OpKind::Transpose, {x}, {{"perm", Dims{0, 2, 1}}}));
  CHECK(one.module.graph.type(one.module.graph.result(one.op)).shape[2] == rows);
  REQUIRE(one.add(OpKind::Reshape, {x}, {{"allowzero", int64_t{1}}, {"shape", Dims{32}}}));
  const Extent joined = one.module.graph.type(one.module.graph.result(one.op)).shape[0];
  CHECK(joined.bound == 32);
  CHECK(length_of(joined) == length_of(type.shape[1]) * 4);
  CHECK(!one.add(
      OpKind::Reshape, {x},
      {{"allowzero", int64_t{1}}, {"shape", Dims{2, 4, 4}}}));  // the run-time length would be in two dimensions
  CHECK(one.diags.exit_code() == 1);
}

TEST_CASE("a run-time length beside a dimension without elements is reshaped") {
  OneOp one;
  const ValueId x = one.input(reals({8, 0, 4}, {}));
  TensorType type = one.module.graph.type(x);
  type.shape[0] = run_time_extent(8, Length::named("rows", 8));
  one.module.graph.retype(x, type);
  REQUIRE(one.add(OpKind::Flatten, {x}, {{"axis", int64_t{2}}}));
  CHECK(one.module.graph.type(one.module.graph.result(one.op)).dims() == Dims{0, 4});
}

TEST_CASE("random draws depend on the global element index only") {
  OneOp one;
  REQUIRE(one.add(OpKind::RandomUniform, {}, {{"shape", Dims{2, 4}}, {"node", int64_t{7}}}));
  const Tensor all = one.run()[0];
  std::vector<Tensor> results(1);
  EvalContext context{
      one.module.graph.op(one.op), {}, {{2, 2}}, {DType::F32}, results, {}, {{{}, {2, 3}}}, {}, {{2, 4}}, {}};
  op_def(OpKind::RandomUniform).eval(context);
  CHECK(results[0].real == std::vector<double>{all.real[2], all.real[3], all.real[6], all.real[7]});
  for (double v : all.real) CHECK((v >= 0 && v < 1));
}

}  // namespace weftc

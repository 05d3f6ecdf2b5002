// Shows that ops that can be evaluated whole give the same decomposed, and what composite ops give on small cases.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "ops_test.h"

namespace weftc {

namespace {
using Axes = std::vector<int64_t>;

struct Case {
  OpKind kind;
  std::vector<Tensor> inputs;
  Attrs attrs;
  Tensor expected;
};
}  // namespace

static const double kNan = std::nan("");

TEST_CASE("composite ops keep integers that a double does not hold") {
  constexpr int64_t kBig = (int64_t{1} << 60) + 1;
  const Tensor imputed = decomposed(OpKind::Imputer, {ints({1, 3}, {kBig, kBig - 1, INT64_MAX})},
                                    {{"imputed_value_int64s", Axes{-kBig}}, {"replaced_value_int64", kBig}});
  CHECK(imputed.integers == Axes{-kBig, kBig - 1, INT64_MAX});
}

TEST_CASE("composite ops give what ONNX says") {
  const Tensor row = reals({1, 3}, {1, 2, 4});
  const double e1 = std::exp(-3), e2 = std::exp(-2), sum = e1 + e2 + 1;
  const Case cases[] = {
      {OpKind::Softmax, {row}, {}, reals({1, 3}, {e1 / sum, e2 / sum, 1 / sum})},
      {OpKind::Softmax,
       {reals({1, 3, 1}, {1, 2, 4})},
       {{"axis", int64_t{1}}, {"flatten", int64_t{1}}},
       reals({1, 3, 1}, {e1 / sum, e2 / sum, 1 / sum})},
      {OpKind::LogSoftmax, {row}, {}, reals({1, 3}, {-3 - std::log(sum), -2 - std::log(sum), -std::log(sum)})},
      {OpKind::Hardmax, {row}, {}, reals({1, 3}, {0, 0, 1})},
      {OpKind::ReduceMean, {row}, {{"axes", Axes{1}}}, reals({1, 1}, {7.0 / 3})},
      {OpKind::ReduceL2, {reals({2}, {3, 4})}, {}, reals({1}, {5})},
      {OpKind::Gemm,
       {reals({2, 1}, {1, 2}), reals({3, 2}, {1, 2, 3, 4, 5, 6}), reals({3}, {1, 1, 1})},
       {{"alpha", 2.0}, {"transA", int64_t{1}}, {"transB", int64_t{1}}},
       reals({1, 3}, {11, 23, 35})},
      {OpKind::Clip, {row, reals({}, {2})}, {}, reals({1, 3}, {2, 2, 4})},
      {OpKind::Pad,
       {reals({4}, {1, 2, 3, 4})},
       {{"mode", std::string("wrap")}, {"pads", Axes{2, -1}}},
       reals({5}, {2, 3, 1, 2, 3})},
      {OpKind::Trilu, {reals({2, 2}, {1, kNan, 3, 4})}, {{"upper", int64_t{0}}}, reals({2, 2}, {1, 0, 3, 4})},
      {OpKind::OneHot, {ints({3}, {-1, 0, 7}), reals({2}, {0, 5})}, {}, reals({0}, {})},
      {OpKind::Einsum,
       {reals({2, 2}, {1, 2, 3, 4}), reals({2, 2}, {1, 0, 0, 2})},
       {{"equation", std::string("ij,kj->ki")}},
       reals({2, 2}, {1, 3, 4, 8})},
      {OpKind::Einsum,
       {reals({2}, {1, 2}), reals({2}, {3, 4})},
       {{"equation", std::string("i,j")}},
       reals({2, 2}, {3, 4, 6, 8})},
      {OpKind::Einsum,
       {reals({2, 2}, {1, kNan, 3, 4}), reals({2}, {5, 6})},
       {{"equation", std::string("ii,i->i")}},
       reals({2}, {5, 24})},
      {OpKind::DepthToSpace,
       {reals({1, 4, 1, 1}, {1, 2, 3, 4})},
       {{"blocksize", int64_t{2}}},
       reals({1, 1, 2, 2}, {1, 2, 3, 4})},
      {OpKind::Pow, {row}, {}, reals({0}, {})},
  };
  for (Case c : cases) {
    OneOp one;
    std::vector<ValueId> operands;
    for (const Tensor& tensor : c.inputs) operands.push_back(one.input(tensor));
    CAPTURE(op_def(c.kind).name);
    if (c.kind == OpKind::OneHot) {
      operands.insert(operands.begin() + 1, ValueId{});
      c.attrs.push_back({"depth", int64_t{2}});
      c.expected = reals({3, 2}, {0, 5, 5, 0, 0, 0});
    }
    if (c.kind == OpKind::Pow) {
      operands.push_back(one.constant(reals({}, {3})));
      c.expected = reals({1, 3}, {1, 8, 64});
    }
    REQUIRE(one.add(c.kind, operands, c.attrs));
    REQUIRE(one.decompose());
    CHECK(relative_error(one.run()[0], c.expected) < 1e-6);  // constants are rounded to f32
  }
}

/// Ops that have both a reference and a decomposition: whichever pass comes first decides which of them is taken.
static std::vector<Case> cases_of_both() {
  const Tensor x = reals({1, 4, 1, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), row = reals({3}, {1, 2, 4});
  const Tensor image = reals({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), line = reals({1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor bias = reals({2}, {10, 20});
  return {
      {OpKind::ConvInteger,
       {ints({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 250, 255}, DType::U8),
        ints({2, 2, 1, 2}, {1, -2, 3, 4, -128, 127, 0, 9}, DType::I8), ints({}, {3}, DType::U8),
        ints({2}, {0, -1}, DType::I8)},
       {{"pads", Axes{0, 1, 0, 0}}},
       {}},
      {OpKind::ConvInteger,
       {ints({1, 1, 2, 2}, {1, 2, 250, 255}, DType::U8), ints({1, 1, 1, 2}, {1, -2}, DType::I8),
        ints({1}, {3}, DType::U8)},
       {{"pads", Axes{0, 1, 0, 0}}},
       {}},
      {OpKind::MatMulInteger,
       {ints({2, 2}, {1, 2, 250, 255}, DType::U8), ints({2, 2}, {1, 200, 3, 4}, DType::U8),
        ints({2}, {3, 7}, DType::U8), ints({2}, {9, 1}, DType::U8)},
       {},
       {}},
      {OpKind::MatMulInteger,
       {ints({2, 2}, {1, 2, 100, -128}, DType::I8), ints({2, 2}, {1, -2, 3, 4}, DType::I8), ints({}, {3}, DType::I8)},
       {},
       {}},
      {OpKind::CastLike, {row, ints({1}, {0})}, {}, {}},
      {OpKind::Concat, {row}, {{"axis", int64_t{0}}}, {}},
      {OpKind::ConstantOfShape, {ints({2}, {2, 3})}, {{"fill", 5.0}}, {}},
      {OpKind::Conv, {image, reals({2, 2, 1, 1}, {1, 2, 3, 4}), bias}, {}, {}},
      {OpKind::Conv, {image, reals({2, 1, 2, 1}, {1, 2, 3, 4}), bias}, {{"group", int64_t{2}}}, {}},
      {OpKind::Conv, {line, reals({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), bias}, {{"pads", Axes{1, 0}}}, {}},
      {OpKind::Flatten, {x}, {{"axis", int64_t{2}}}, {}},
      {OpKind::Identity, {x}, {}, {}},
      {OpKind::MatMul, {row, reals({3, 2}, {1, 2, 3, 4, 5, 6})}, {}, {}},
      {OpKind::MatMul, {reals({2, 3}, {1, 2, 3, 4, 5, 6}), row}, {}, {}},
      {OpKind::Max, {row, reals({1}, {2}), row}, {}, {}},
      {OpKind::Min, {row}, {}, {}},
      {OpKind::Pow, {row, reals({}, {3})}, {}, {}},
      {OpKind::Range, {ints({}, {2}), ints({}, {11}), ints({}, {4})}, {}, {}},
      {OpKind::Cast, {row}, {{"saturate", int64_t{0}}, {"to", dtype_attr(DType::F8E4M3FN)}}, {}},
      {OpKind::Shape, {x}, {{"start", int64_t{-3}}}, {}},
      {OpKind::Shrink, {ints({5}, {-9, -2, 2, 9, 125}, DType::I8)}, {{"bias", -10.5}, {"lambd", 2.5}}, {}},
      {OpKind::Size, {x}, {}, {}},
      {OpKind::Split, {x}, {{"axis", int64_t{1}}, {"split", Axes{4}}}, {}},
      {OpKind::Squeeze, {x}, {{"axes", Axes{-2}}}, {}},
      {OpKind::Unsqueeze, {x}, {{"axes", Axes{0, -1}}}, {}},
  };
}

TEST_CASE("simple powers are those of std::pow, of zeros and infinities too") {
  const std::vector<double> bases{0, -0.0, INFINITY, -INFINITY, kNan, -1, 4};
  for (const double exponent : {1.0, 2.0, 3.0, 0.5, -1.0})
    for (const double base : bases) {
      OneOp one;
      REQUIRE(one.add(OpKind::Pow, {one.input(reals({1}, {base})), one.constant(reals({}, {exponent}))}));
      REQUIRE(one.decompose());
      const double found = one.run()[0].at(0), wanted = std::pow(base, exponent);
      CAPTURE(base);
      CAPTURE(exponent);
      CHECK((std::isnan(wanted) ? std::isnan(found) : found == wanted));
      CHECK((std::isnan(wanted) || std::signbit(found) == std::signbit(wanted)));
    }
}

TEST_CASE("the fill value of a Pad may be known to a run only") {
  const Tensor x = reals({2, 2}, {1, 2, 3, 4});
  const auto padded = [&](const Tensor& fill, const Attrs& attrs) {
    OneOp one;
    const ValueId data = one.input(x), value = one.input(fill);
    REQUIRE(one.add(OpKind::Pad, {data, {}, value}, attrs));
    REQUIRE(one.decompose());
    return one.run()[0];
  };
  const Tensor cut = padded(reals({}, {9}), {{"pads", Axes{0, 1, -1, 0}}}), wanted = reals({1, 3}, {9, 1, 2});
  CHECK(cut.dims == wanted.dims);
  CHECK(cut.real == wanted.real);
  CHECK(padded(reals({1}, {kNan}), {{"pads", Axes{0, 0, 0, 0}}}).real == x.real);
  CHECK(padded(reals({1}, {9}), {{"mode", std::string("edge")}, {"pads", Axes{0, 0, 0, 1}}}).real ==
        std::vector<double>{1, 2, 2, 3, 4, 4});
  for (const Tensor& fill : {reals({2}, {1, 2}), ints({}, {1})}) {
    OneOp one;
    const ValueId data = one.input(x), value = one.input(fill);
    CHECK_FALSE(one.add(OpKind::Pad, {data, {}, value}, {{"pads", Axes{0, 1, 0, 0}}}));
    CHECK(one.diags.text().find("[pad-value]") != std::string::npos);
  }
}

TEST_CASE("ops with a reference of their own agree with their decomposition") {
  for (const Case& c : cases_of_both()) {
    OneOp one;
    std::vector<ValueId> operands;
    for (const Tensor& tensor : c.inputs) {
      operands.push_back(one.constant(tensor));
      one.values[operands.back().index] = tensor;
    }
    CAPTURE(op_def(c.kind).name);
    REQUIRE(one.add(c.kind, operands, c.attrs));
    const Tensor whole = one.run()[0];
    REQUIRE(decomposes(one.view()));
    REQUIRE(one.decompose());
    CHECK(relative_error(one.run()[0], whole) == 0);
  }
}

TEST_CASE("every op that has both a reference and a decomposition is among those cases") {
  std::set<std::string> missing;
  for (const OpDef* def : all_op_defs())
    if (def->eval && def->decompose) missing.insert(def->name);
  for (const Case& c : cases_of_both()) missing.erase(op_def(c.kind).name);
  for (const char* op : {"LengthOf", "NameLength"}) missing.erase(op);  // speak of a length of the module
  missing.erase("Slice");    // decomposed only where a run decides a start: test/fixtures/run_time_shapes
  missing.erase("Pad");      // decomposed only where a run decides how much: test/fixtures/run_time_pads
  missing.erase("Tile");     // decomposed only where a dimension of run-time length is repeated: open_composites
  missing.erase("MaxPool");  // decomposed only where its second result is read
  // Ops whose number of elements data decides are tested in test/fixtures/selections and ONNX's node cases.
  for (const char* op : {"NonZero", "TopK", "Unique"}) missing.erase(op);
  CHECK(join({missing.begin(), missing.end()}, ", ") == "");
}

TEST_CASE("the largest and smallest of any number of operands: the reference takes them all") {
  const Tensor rows[] = {reals({3}, {1, 2, 3}), reals({3}, {3, 2, 1}), reals({3}, {0, 9, 2}), reals({1}, {-4})};
  const std::vector<double> largest[] = {{1, 2, 3}, {3, 2, 3}, {3, 9, 3}, {3, 9, 3}};
  const std::vector<double> smallest[] = {{1, 2, 3}, {1, 2, 1}, {0, 2, 1}, {-4, -4, -4}};
  for (size_t count = 1; count <= 4; ++count)
    for (const OpKind kind : {OpKind::Max, OpKind::Min}) {
      OneOp one;
      std::vector<ValueId> operands;
      for (size_t i = 0; i < count; ++i) operands.push_back(one.input(rows[i]));
      REQUIRE(one.add(kind, operands, {}));
      const std::vector<double>& wanted = (kind == OpKind::Max ? largest : smallest)[count - 1];
      CHECK(one.run()[0].real == wanted);
      REQUIRE(one.decompose());
      CHECK(one.run()[0].real == wanted);
    }
}

TEST_CASE("a convolution with bias adds it after") {
  OneOp one;
  REQUIRE(one.add(OpKind::Conv, {one.input(reals({1, 1, 3}, {1, 2, 3})), one.input(reals({2, 1, 2}, {1, 1, 1, -1})),
                                 one.input(reals({2}, {10, 20}))}));
  REQUIRE(one.decompose());
  CHECK(one.run()[0].real == std::vector<double>{13, 15, 19, 19});
}

TEST_CASE("dropout keeps its operand in inference and scales the rest in training") {
  OneOp one;
  const ValueId x = one.input(reals({64}, std::vector<double>(64, 1)));
  REQUIRE(one.add(OpKind::Dropout, {x}, {{"ratio", 0.75}, {"training_mode", int64_t{1}}}, 2));
  REQUIRE(one.decompose());
  const std::vector<Tensor> y = one.run();
  int kept = 0;
  for (int i = 0; i < 64; ++i) {
    CHECK(y[0].real[i] == (y[1].integers[i] ? 4 : 0));
    kept += static_cast<int>(y[1].integers[i]);
  }
  CHECK((kept > 4 && kept < 32));
}

TEST_CASE("a shape that is known at run time only is refused by name") {
  OneOp one;
  CHECK(!one.add(OpKind::Reshape, {one.input(reals({2}, {1, 2})), one.input(ints({1}, {2}))}));
  CHECK(one.diags.all()[0].id == "reshape-shape-runtime-unsupported");
  CHECK(one.diags.all()[0].message.find("'x_2'") != std::string::npos);
  CHECK(one.diags.exit_code() == 3);
}

}  // namespace weftc

// Ops of whose results data decides the shape: what they give, as parts with run-time lengths, and folded.
#include <doctest/doctest.h>

#include <cmath>

#include "ir/evaluate/evaluate.h"
#include "test/ir/ops_test.h"
#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {
const std::string kHead = R"(<ir_version: 10, opset_import: ["" : 20]> )";

/// The outputs of a model for these inputs.
std::vector<Tensor> outputs_of(const std::string& model, const std::vector<Tensor>& inputs,
                               const std::string& yaml = "") {
  const auto made = prepare(kHead + model, yaml, "decompose");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  EvalResult result = evaluate(*made->module, inputs);
  REQUIRE(result.error.empty());
  return std::move(result.outputs);
}

void check_ints(const Tensor& found, const Dims& dims, const std::vector<int64_t>& values) {
  CHECK(found.dims == dims);
  CHECK(found.integers == values);
}

Tensor bools(const std::vector<int64_t>& values) {
  return ints({static_cast<int64_t>(values.size())}, values, DType::Bool);
}
}  // namespace

TEST_CASE("NonZero gives the places of all elements that are not zero, in order") {
  const std::string model = "m (float[2,3] x) => (int64[2,n] y) { y = NonZero(x) }";
  check_ints(outputs_of(model, {reals({2, 3}, {0, 3, std::nan(""), 0, 0, -1})})[0], {2, 3}, {0, 0, 1, 1, 2, 2});
  check_ints(outputs_of(model, {reals({2, 3}, {0, 0, 0, 0, 0, 0})})[0], {2, 0}, {});
  check_ints(outputs_of("m (int64[4] x) => (int64[1,n] y) { y = NonZero(x) }", {ints({4}, {7, 0, 0, 9})})[0], {1, 2},
             {0, 3});
  check_ints(outputs_of("m (int64 x) => (int64[0,n] y) { y = NonZero(x) }", {ints({}, {7})})[0], {0, 1}, {});
}

TEST_CASE("NonZero of dimensions of run-time length") {
  const std::string model = "m (float[a,b] x) => (int64[2,n] y) { y = NonZero(x) }";
  check_ints(outputs_of(model, {reals({2, 3}, {0, 3, 5, 0, 0, -1})}, "weft: 1\ndims: {a: \"<=4\", b: \"<=5\"}\n")[0],
             {2, 3}, {0, 0, 1, 1, 2, 2});
}

TEST_CASE("Compress takes what a condition chooses, along an axis or of all elements") {
  const Tensor x = ints({2, 3}, {1, 2, 3, 4, 5, 6});
  const std::string model =
      "m (int64[2,3] x, bool[2] c) => (int64[2,n] y, int64[k] z, int64[a,3] w) "
      "{ y = Compress<axis = -1>(x, c) z = Compress(x, c) w = Compress<axis = 0>(x, c) }";
  const std::vector<Tensor> second = outputs_of(model, {x, bools({0, 1})});
  check_ints(second[0], {2, 1}, {2, 5});
  check_ints(second[1], {1}, {2});
  check_ints(second[2], {1, 3}, {4, 5, 6});
  check_ints(outputs_of(model, {x, bools({0, 0})})[2], {0, 3}, {});
}

TEST_CASE("Compress by a condition that is known takes known elements") {
  const std::string model = "m (int64[3] x) => (int64[2] y) <bool[3] c = {1, 0, 1}> { y = Compress(x, c) }";
  check_ints(outputs_of(model, {ints({3}, {7, 8, 9})})[0], {2}, {7, 9});
}

TEST_CASE("Compress reads no condition that is after the last element") {
  const std::string model =
      "m (int64[a] x, bool[b] c) => (int64[n] y, int64[n] z) { y = Compress<axis = 0>(x, c) z = Compress(x, c) }";
  const Tensor x = ints({3}, {1, 2, 3});
  for (const char* dims : {"a: 3, b: 5", "a: 3, b: \"<=8\"", "a: \"<=4\", b: 5", "a: \"<=4\", b: \"<=8\""}) {
    CAPTURE(dims);
    const std::vector<Tensor> found =
        outputs_of(model, {x, bools({1, 0, 1, 1, 1})}, std::string("weft: 1\ndims: {") + dims + "}\n");
    for (const Tensor& each : found) check_ints(each, {2}, {1, 3});
  }
  check_ints(outputs_of("m (int64[2] x) => (int64[n] y) <bool[4] c = {0, 1, 1, 1}> { y = Compress(x, c) }",
                        {ints({2}, {8, 9})})[0],
             {1}, {9});
}

TEST_CASE("Unique of elements and of slices, sorted or as they come, and the same folded") {
  struct Case {
    const char* attributes;
    const char* type;
    const char* elements;
    Tensor x;
    Dims dims;
    std::vector<int64_t> values, first, inverse, counts;
  };
  const Tensor list = ints({6}, {2, 1, 1, 3, 4, 3}), rows = ints({3, 3}, {1, 0, 0, 1, 0, 0, 2, 3, 4});
  const Tensor deep = ints({2, 4, 2}, {1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1});
  const Case cases[] = {
      {"sorted = 1",
       "int64[6]",
       "2, 1, 1, 3, 4, 3",
       list,
       {4},
       {1, 2, 3, 4},
       {1, 0, 3, 4},
       {1, 0, 0, 2, 3, 2},
       {2, 1, 2, 1}},
      {"sorted = 0",
       "int64[6]",
       "2, 1, 1, 3, 4, 3",
       list,
       {4},
       {2, 1, 3, 4},
       {0, 1, 3, 4},
       {0, 1, 1, 2, 3, 2},
       {1, 2, 2, 1}},
      {"axis = 0",
       "int64[3,3]",
       "1, 0, 0, 1, 0, 0, 2, 3, 4",
       rows,
       {2, 3},
       {1, 0, 0, 2, 3, 4},
       {0, 2},
       {0, 0, 1},
       {2, 1}},
      {"axis = -2",
       "int64[2,4,2]",
       "1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1",
       deep,
       {2, 3, 2},
       {0, 1, 1, 1, 2, 1, 0, 1, 1, 1, 2, 1},
       {1, 0, 2},
       {1, 0, 2, 0},
       {2, 1, 1}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.attributes);
    const std::string results = ") => (int64[a] y, int64[b] first, int64[n] inverse, int64[c] counts)";
    const std::string node = std::string("{ y, first, inverse, counts = Unique<") + c.attributes + ">(x) }";
    const std::string given = std::string("m (") + c.type + " x" + results + node;
    const std::string known = "m (" + results + " <" + c.type + " x = {" + c.elements + "}> " + node;
    for (const auto& found : {outputs_of(given, {c.x}), outputs_of(known, {})}) {
      check_ints(found[0], c.dims, c.values);
      check_ints(found[1], {static_cast<int64_t>(c.first.size())}, c.first);
      check_ints(found[2], {static_cast<int64_t>(c.inverse.size())}, c.inverse);
      check_ints(found[3], {static_cast<int64_t>(c.counts.size())}, c.counts);
    }
  }
}

TEST_CASE("Unique takes NaN for one value, the largest") {
  const double nan = std::nan("");
  const std::vector<Tensor> found = outputs_of(
      "m (float[5] x) => (float[a] y, int64[b] first, int64[5] inverse, int64[c] counts) { y, first, inverse, counts = "
      "Unique(x) }",
      {reals({5}, {nan, 1, nan, -1, 1})});
  CHECK(found[0].dims == Dims{3});
  CHECK(std::isnan(found[0].real[2]));
  check_ints(found[1], {3}, {3, 1, 0});
  check_ints(found[3], {3}, {1, 2, 2});
}

TEST_CASE("NonMaxSuppression keeps the best of boxes that overlap") {
  const std::string types = "float[1,n,4] boxes, float[1,2,n] scores", result =
                                                                           ") => (int64[k,3] y) <int64 most = {2}, "
                                                                           "float overlap = {0.5}, float low = {0.1}> ";
  const std::string model = "m (" + types + result + "{ y = NonMaxSuppression(boxes, scores, most, overlap, low) }";
  // Boxes 0 and 1 overlap by nine tenths, 2 stands alone, 3 has too low a score.
  const Tensor boxes = reals({1, 4, 4}, {0, 0, 1, 1, 0, 0.1, 1, 1, 4, 4, 2, 2, 7, 7, 9, 9});
  const Tensor scores = reals({1, 2, 4}, {0.5, 0.9, 0.9, 0, 0, 0, 0, 0});
  const std::string open = "weft: 1\ndims: {n: \"<=6\"}\n", pinned = "weft: 1\ndims: {n: 4}\n";
  for (const std::string& yaml : {open, pinned})
    check_ints(outputs_of(model, {boxes, scores}, yaml)[0], {2, 3}, {0, 0, 1, 0, 0, 2});
  const std::string none = "m (" + types + ") => (int64[k,3] y) { y = NonMaxSuppression(boxes, scores) }";
  check_ints(outputs_of(none, {boxes, scores}, pinned)[0], {0, 3}, {});
}

TEST_CASE("TopK of a number that data decides") {
  const std::string model = "m (int64[2,4] x, int64[1] k) => (int64[2,n] y, int64[2,n] at) { y, at = TopK(x, k) }";
  const Tensor x = ints({2, 4}, {1, 4, 3, 2, 5, 6, 7, 8});
  const std::vector<Tensor> found = outputs_of(model, {x, ints({1}, {3})});
  check_ints(found[0], {2, 3}, {4, 3, 2, 8, 7, 6});
  check_ints(found[1], {2, 3}, {1, 2, 3, 3, 2, 1});
  check_ints(outputs_of(model, {x, ints({1}, {0})})[0], {2, 0}, {});
}

TEST_CASE("what is computed from elements that data chose has their number as its length") {
  const std::string model =
      R"(m (float[2,3] x) => (float[n] chosen, float s, int64[n] numbers, float[n,2] filled, float[few] first)
<float zero = {0}, int64 none = {0}, int64 one = {1}, int64[1] from = {0}, int64[1] to = {2}, int64[1] two = {2}> {
  mask = Greater(x, zero)  at = NonZero(mask)  places = Transpose<perm = [1, 0]>(at)  chosen = GatherND(x, places)
  s = ReduceSum<keepdims = 0>(chosen)  shape = Shape<start = 1>(at)  count = Squeeze(shape)
  numbers = Range(none, count, one)  wide = Concat<axis = 0>(shape, two)  filled = ConstantOfShape(wide)
  first = Slice(chosen, from, to) })";
  const std::vector<Tensor> found = outputs_of(model, {reals({2, 3}, {-1, 3, 5, 0, 0, 1})});
  CHECK(found[0].real == std::vector<double>{3, 5, 1});
  CHECK(found[1].real == std::vector<double>{9});
  check_ints(found[2], {3}, {0, 1, 2});
  CHECK(found[3].dims == Dims{3, 2});
  CHECK(found[4].real == std::vector<double>{3, 5});
  CHECK(outputs_of(model, {reals({2, 3}, {0, 0, 0, 0, 0, 2})})[4].real == std::vector<double>{2});
}

TEST_CASE("Expand to one row, or to none where a run has none, keeps all rows or none") {
  const std::string model = R"(m (float[a,2] x, float[b] y) => (float[c,2] z) <int64[1] one = {1}, int64[1] two = {2}> {
  rows = Shape(y)  most = Min(rows, one)  shape = Concat<axis = 0>(most, two)  z = Expand(x, shape) })";
  const std::string yaml = "weft: 1\ndims: {a: \"<=4\", b: \"<=5\"}\n";
  const std::vector<Tensor> kept = outputs_of(model, {reals({2, 2}, {1, 2, 3, 4}), reals({3}, {0, 0, 0})}, yaml);
  CHECK(kept[0].dims == Dims{2, 2});
  CHECK(kept[0].real == std::vector<double>{1, 2, 3, 4});
  CHECK(outputs_of(model, {reals({1, 2}, {1, 2}), reals({0}, {})}, yaml)[0].dims == Dims{0, 2});
}

TEST_CASE("a shape that data decides is refused inside of a branch") {
  const auto made = prepare(kHead + R"(m (float[4] x, bool c) => (float[4] y)
{ y = If(c) <then_branch = t () => (float[4] a) { at = NonZero(x)  n = Shape(at)  f = Cast<to = 1>(n)  s = ReduceSum<keepdims = 0>(f)  a = Add(x, s) },
             else_branch = e () => (float[4] b) { b = Identity(x) }> })",
                            "", "decompose");
  CHECK(!made->ok());
  CHECK(made->diags.text().find("[run-time-length-unsupported]") != std::string::npos);
}

TEST_CASE("a number that data decides meets a fixed one, which the program checks") {
  struct Case {
    const char* nodes;
    Dims dims;
    std::vector<double> values;
  };
  // k = 10 30 40, of x = 10 20 30 40 50 60.
  const Case cases[] = {{"k = Compress<axis = 0>(x, c) y = Add(k, three)", {3}, {11, 32, 43}},
                        {"k = Compress<axis = 0>(x, c) y = Sum(k, three, three)", {3}, {12, 34, 46}},
                        {"k = Compress<axis = 0>(x, c) y = Where(some, k, three)", {3}, {10, 2, 40}},
                        {"k = Compress<axis = 0>(x, c) u = Unsqueeze(k, one) y = Concat<axis = 1>(u, column)",
                         {3, 2},
                         {10, 1, 30, 2, 40, 3}},
                        {"k = Compress<axis = 0>(x, c) y = MatMul(k, column)", {1}, {190}},
                        {"k = Compress<axis = 0>(x, c) u = Unsqueeze(k, nought) y = Gemm(u, column)", {1, 1}, {190}},
                        {"k = Compress<axis = 0>(x, c) y = Reshape(k, square)", {3, 1}, {10, 30, 40}},
                        {"k = Compress<axis = 0>(x, c) y = Expand(k, wide)", {2, 3}, {10, 30, 40, 10, 30, 40}},
                        {"n = NonZero(c) i = Transpose(n) y = ScatterND(x, i, three)", {6}, {1, 20, 2, 3, 50, 60}},
                        {"k = Compress<axis = 0>(x, c) j = Compress<axis = 0>(x, d) y = Add(k, j)", {3}, {20, 50, 90}}};
  const Tensor x = reals({6}, {10, 20, 30, 40, 50, 60}), c = bools({1, 0, 1, 1, 0, 0}), d = bools({1, 1, 0, 0, 1, 0});
  for (const Case& each : cases) {
    CAPTURE(each.nodes);
    const std::string model =
        std::string(
            "m (float[6] x, bool[6] c, bool[6] d) => (float[] y) <float[3] three = {1, 2, 3}, "
            "bool[3] some = {1, 0, 1}, float[3,1] column = {1, 2, 3}, int64[1] one = {1}, int64[1] nought = "
            "{0}, int64[2] square = {3, 1}, int64[2] wide = {2, 3}> { ") +
        each.nodes + " }";
    const auto made = prepare(kHead + model, "", "decompose");
    REQUIRE_MESSAGE(made->ok(), made->diags.text());
    REQUIRE(made->module->relations.size() == 1);
    const EvalResult result = evaluate(*made->module, {x, c, d});
    REQUIRE(result.error.empty());
    CHECK(result.outputs[0].dims == each.dims);
    CHECK(result.outputs[0].real == each.values);
  }
}

TEST_CASE("the user bounds a number that data decides, by the node that makes it or by its result") {
  const std::string nodes = "{ [chosen] k = Compress<axis = 0>(x, c) y = Neg(k) }";
  for (const char* name : {"chosen", "k"}) {
    CAPTURE(name);
    const auto made = prepare(kHead + "m (float[6] x, bool[6] c) => (float[k] y) " + nodes,
                              std::string("weft: 1\ndims: {") + name + ": \"<=4\"}\n", "decompose");
    REQUIRE_MESSAGE(made->ok(), made->diags.text());
    CHECK(made->module->graph.type(made->module->graph.outputs()[0].value).shape[0].bound == 4);
    REQUIRE(made->module->relations.size() == 1);
    CHECK(made->module->relations[0].right == 4);
    const EvalResult result = evaluate(*made->module, {reals({6}, {1, 2, 3, 4, 5, 6}), bools({0, 1, 0, 1, 0, 0})});
    CHECK(result.outputs[0].real == std::vector<double>{-2, -4});
  }
}

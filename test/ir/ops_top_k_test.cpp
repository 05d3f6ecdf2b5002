// TopK: order of equal elements, of NaN, of unsigned numbers, and what is refused.
#include <doctest/doctest.h>

#include <cmath>

#include "ops_test.h"

namespace weftc {

namespace {

/// Values and indices of TopK along axis 0.
std::vector<Tensor> top_k(const Tensor& x, int64_t k, bool largest) {
  OneOp one;
  REQUIRE(one.add(OpKind::TopK, {one.input(x)}, {{"axis", int64_t{0}}, {"k", k}, {"largest", int64_t{largest}}}, 2));
  return one.run();
}

std::string refusal(const Tensor& x, Attrs attrs) {
  OneOp one;
  CHECK(!one.add(OpKind::TopK, {one.input(x)}, std::move(attrs), 2));
  return one.diags.text();
}

}  // namespace

TEST_CASE("TopK takes equal elements by their index, and NaN as the largest") {
  const double nan = std::nan("");
  const Tensor x = reals({7}, {1, nan, 3, 3, -0.0, 0, nan});
  const std::vector<Tensor> largest = top_k(x, 4, true), smallest = top_k(x, 6, false);
  CHECK(largest[1].integers == std::vector<int64_t>{1, 6, 2, 3});
  CHECK(std::isnan(largest[0].real[1]));
  CHECK(largest[0].real[2] == 3);
  CHECK(smallest[1].integers == std::vector<int64_t>{4, 5, 0, 2, 3, 1});
}

TEST_CASE("TopK compares numbers of u64 without a sign") {
  const Tensor x = ints({3}, {5, -1, 7}, DType::U64);
  CHECK(top_k(x, 3, true)[1].integers == std::vector<int64_t>{1, 2, 0});
}

TEST_CASE("TopK refuses more elements than there are, and bool") {
  const Tensor x = reals({3}, {1, 2, 3});
  CHECK(refusal(x, {{"k", int64_t{4}}}).find("[top-k-count]") != std::string::npos);
  CHECK(refusal(x, {{"k", int64_t{-1}}}).find("[top-k-count]") != std::string::npos);
  CHECK(refusal(x, {{"k", int64_t{1}}, {"axis", int64_t{1}}}).find("[axis-range]") != std::string::npos);
  CHECK(refusal(ints({2}, {0, 1}, DType::Bool), {{"k", int64_t{1}}}).find("[top-k-dtype]") != std::string::npos);
}

}  // namespace weftc

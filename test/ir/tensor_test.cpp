// Element types as they are stored, and the metric that compares results.
#include "ir/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace weftc {

TEST_CASE("tensor: every half and bfloat16 survives a round trip") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto b = static_cast<uint16_t>(bits);
    if (!std::isnan(half_to_double(b))) REQUIRE(double_to_half(half_to_double(b)) == b);
    if (!std::isnan(bfloat16_to_double(b))) REQUIRE(double_to_bfloat16(bfloat16_to_double(b)) == b);
  }
  CHECK(std::isnan(half_to_double(double_to_half(std::nan("")))));
  CHECK(std::isnan(bfloat16_to_double(double_to_bfloat16(std::nan("")))));
}

TEST_CASE("tensor: rounding is to nearest even, overflow to infinity") {
  CHECK(round_to(DType::F16, 2049) == 2048);
  CHECK(round_to(DType::F16, 2051) == 2052);
  CHECK(round_to(DType::F16, 65519) == 65504);
  CHECK(std::isinf(round_to(DType::F16, 65520)));
  CHECK(round_to(DType::F16, std::ldexp(1, -24)) == std::ldexp(1, -24));  // the smallest subnormal
  CHECK(round_to(DType::F16, std::ldexp(1, -26)) == 0);
  CHECK(round_to(DType::BF16, 257) == 256);
  CHECK(round_to(DType::BF16, 259) == 260);
  CHECK(round_to(DType::F32, 0.1) == static_cast<double>(0.1f));
  CHECK(round_to(DType::F64, 0.1) == 0.1);
}

TEST_CASE("tensor: bytes") {
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::I16, DType::I32, DType::I64,
                      DType::U8, DType::U16, DType::U32, DType::U64, DType::Bool}) {
    Tensor t(dtype, {3});
    for (int i = 0; i < 3; ++i) t.put(i, dtype == DType::Bool ? i > 0 : i - (is_signed_int(dtype) ? 1 : 0));
    const std::vector<std::byte> bytes = tensor_to_bytes(t);
    CHECK(static_cast<int64_t>(bytes.size()) == 3 * dtype_bytes(dtype));
    CHECK(relative_error(tensor_from_bytes(dtype, {3}, bytes), t) == 0);
  }
}

TEST_CASE("tensor: integers wrap, bool is 0 or 1") {
  CHECK(wrap(DType::I8, 200) == -56);
  CHECK(wrap(DType::U16, -1) == 65535);
  CHECK(wrap(DType::Bool, 7) == 1);
  Tensor t(DType::U64, {1});
  t.put(0, 1e30);
  CHECK(static_cast<uint64_t>(t.integers[0]) == UINT64_MAX);
}

TEST_CASE("tensor: an empty extent has no elements, a scalar has one") {
  CHECK(element_count({3, 0}) == 0);
  CHECK(element_count({}) == 1);
  int visited = 0;
  for (Index at(Dims{2, 0}); at.more(); at.next()) ++visited;
  CHECK(visited == 0);
  for (Index at(Dims{}); at.more(); at.next()) ++visited;
  CHECK(visited == 1);
  Index at(Dims{2, 3});
  for (int i = 0; i < 4; ++i) at.next();
  CHECK(at[0] == 1);
  CHECK(at[1] == 1);
  CHECK(at.dot({10, 1}) == 11);
}

TEST_CASE("tensor: relative error is over the largest element, infinite where special values differ") {
  Tensor a(DType::F32, {3}), b(DType::F32, {3});
  a.real = {1, 100, 2};
  b.real = {1.5, 100, 2};
  CHECK(relative_error(a, b) == doctest::Approx(0.005));
  b.real[2] = std::nan("");
  CHECK(std::isinf(relative_error(a, b)));
  a.real[2] = std::nan("");
  CHECK(relative_error(a, b) == doctest::Approx(0.005));
  a.real[1] = b.real[1] = std::numeric_limits<double>::infinity();
  CHECK(std::isfinite(relative_error(a, b)));
  b.real[1] = -b.real[1];
  CHECK(std::isinf(relative_error(a, b)));
  CHECK(std::isinf(relative_error(Tensor(DType::F32, {2}), Tensor(DType::F32, {3}))));
  Tensor zero(DType::F32, {1}), tiny(DType::F32, {1});
  tiny.real[0] = 1e-9;
  CHECK(relative_error(tiny, zero) == 1e-9);
}

}  // namespace weftc

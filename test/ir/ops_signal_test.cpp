// Transforms, tables and determinants against their definitions.
#include <doctest/doctest.h>

#include <cmath>

#include "ops_test.h"

namespace weftc {

namespace {
Tensor noise(Dims dims) {
  Tensor t(DType::F64, std::move(dims));
  for (int64_t i = 0; i < t.size(); ++i) t.real[i] = std::sin(static_cast<double>(i * i));
  return t;
}
}  // namespace

TEST_CASE("a transform is its definition, in one product and in several") {
  for (const int64_t n : {12, 600}) {
    const Tensor x = noise({1, n, 2});
    Tensor expected(DType::F64, {1, n, 2});
    for (int64_t k = 0; k < n; ++k)
      for (int64_t i = 0; i < n; ++i) {
        const double angle = -2 * M_PI * static_cast<double>(i * k % n) / static_cast<double>(n);
        expected.real[2 * k] += x.real[2 * i] * std::cos(angle) - x.real[2 * i + 1] * std::sin(angle);
        expected.real[2 * k + 1] += x.real[2 * i] * std::sin(angle) + x.real[2 * i + 1] * std::cos(angle);
      }
    CHECK(relative_error(decomposed(OpKind::DFT, {x}, {{"axis", int64_t{1}}}), expected) < 1e-9);
  }
}

TEST_CASE("inverse transforms give back what was transformed") {
  const Tensor complex = noise({2, 14, 2}), real = noise({2, 14, 1});
  const Attrs forth{{"axis", int64_t{1}}}, back{{"axis", int64_t{1}}, {"inverse", int64_t{1}}};
  CHECK(relative_error(decomposed(OpKind::DFT, {decomposed(OpKind::DFT, {complex}, forth)}, back), complex) < 1e-9);
  const Attrs half{{"axis", int64_t{1}}, {"onesided", int64_t{1}}};
  const Attrs whole{{"axis", int64_t{1}}, {"inverse", int64_t{1}}, {"onesided", int64_t{1}}};
  const Tensor spectrum = decomposed(OpKind::DFT, {real}, half);
  CHECK(spectrum.dims == Dims{2, 8, 2});
  CHECK(relative_error(decomposed(OpKind::DFT, {spectrum}, whole), real) < 1e-9);
}

TEST_CASE("transforms refuse what they cannot do") {
  OneOp one;
  CHECK(!one.add(OpKind::DFT, {one.input(Tensor(DType::F32, {1, 8209, 1}))}, {{"axis", int64_t{1}}}));
  CHECK(one.diags.all()[0].id == "dft-length-unsupported");
}

TEST_CASE("determinants: rows are swapped, and a singular matrix has 0") {
  const Tensor matrices = reals({2, 3, 3}, {0, 2, 1, 3, 0, 1, 1, 1, 0, 1, 2, 3, 2, 4, 6, 1, 0, 1});
  CHECK(relative_error(decomposed(OpKind::Det, {matrices}, {}), reals({2}, {5, 0})) < 1e-6);
}

TEST_CASE("pools of powers count padding as 0, also where the last window leaves it") {
  const Attrs attrs{{"ceil_mode", int64_t{1}},
                    {"kernel_shape", std::vector<int64_t>{2}},
                    {"p", int64_t{2}},
                    {"pads", std::vector<int64_t>{1, 0}},
                    {"strides", std::vector<int64_t>{2}}};
  CHECK(relative_error(decomposed(OpKind::LpPool, {reals({1, 1, 4}, {-3, 3, 4, -5})}, attrs),
                       reals({1, 1, 3}, {3, 5, 5})) < 1e-6);
  CHECK(relative_error(decomposed(OpKind::GlobalLpPool, {reals({1, 1, 2}, {-3, 4})}, {}), reals({1, 1, 1}, {5})) <
        1e-6);
}

}  // namespace weftc

// Ops that read images at computed places, and those that put images together: small cases by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "ops_test.h"

namespace weftc {

namespace {
using Axes = std::vector<int64_t>;

const Tensor kRow = reals({1, 1, 1, 4}, {1, 2, 3, 4});

/// Row 0 of a picture of four columns, at x in [-1, 1].
Tensor at(std::vector<double> x) {
  const auto count = static_cast<int64_t>(x.size());
  std::vector<double> grid;
  for (double value : x) grid.insert(grid.end(), {value, 0});
  return reals({1, 1, count, 2}, grid);
}

Attrs grid_attrs(const char* mode, const char* padding, int64_t align_corners) {
  return {{"align_corners", align_corners}, {"mode", std::string(mode)}, {"padding_mode", std::string(padding)}};
}
}  // namespace

TEST_CASE("grids beyond the border read zeros, the border, or the mirrored image") {
  // Without align_corners x = -1 is the outer edge of column 0; -1.25 lies at column -1, 2 at column 5.5.
  const Tensor grid = at({-1, -1.25, 2});
  const auto sample = [&](const char* padding) {
    return decomposed(OpKind::GridSample, {kRow, grid}, grid_attrs("linear", padding, 0));
  };
  CHECK(relative_error(sample("zeros"), reals({1, 1, 1, 3}, {0.5, 0, 0})) < 1e-6);
  CHECK(relative_error(sample("border"), reals({1, 1, 1, 3}, {1, 1, 4})) < 1e-6);
  CHECK(relative_error(sample("reflection"), reals({1, 1, 1, 3}, {1, 1, 2.5})) < 1e-6);
}

TEST_CASE("grid samples: nearest rounds to even, cubic gives back the elements, NaN reads nothing") {
  const Tensor grid = at({-1, 0, 1.0 / 3});  // columns 0, 1.5 and 2 with align_corners
  CHECK(relative_error(decomposed(OpKind::GridSample, {kRow, grid}, grid_attrs("nearest", "zeros", 1)),
                       reals({1, 1, 1, 3}, {1, 3, 3})) < 1e-6);
  CHECK(relative_error(decomposed(OpKind::GridSample, {kRow, grid}, grid_attrs("cubic", "border", 1)),
                       reals({1, 1, 1, 3}, {1, 2.5, 3})) < 1e-6);
  CHECK(relative_error(decomposed(OpKind::GridSample, {kRow, at({std::nan("")})}, grid_attrs("nearest", "zeros", 1)),
                       reals({1, 1, 1, 1}, {0})) == 0);
}

TEST_CASE("an affine grid of the identity has the middles of all elements, x first") {
  const Tensor theta = reals({1, 2, 3}, {1, 0, 0, 0, 1, 0});
  const Attrs attrs{{"size", Axes{1, 1, 1, 2}}};
  CHECK(relative_error(decomposed(OpKind::AffineGrid, {theta}, attrs), reals({1, 1, 2, 2}, {-0.5, 0, 0.5, 0})) < 1e-6);
}

TEST_CASE("a deformable convolution with whole offsets reads the elements beside") {
  const Tensor weight = reals({1, 1, 1, 1}, {10}), offset = reals({1, 2, 1, 4}, {0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(relative_error(decomposed(OpKind::DeformConv, {kRow, weight, offset}, {}),
                       reals({1, 1, 1, 4}, {20, 30, 40, 0})) < 1e-6);
}

TEST_CASE("regions: a number of places that follows from the region is as good as a fixed one") {
  Tensor image(DType::F32, {1, 2, 6, 7});
  for (int64_t i = 0; i < image.size(); ++i) image.real[i] = std::sin(static_cast<double>(i));
  // Bins of 2.5 by 2.5, in the image; bins of 2 by 1.5, of which some begin outside.
  const std::pair<Tensor, int64_t> regions[] = {{reals({1, 4}, {0, 0.5, 5, 5.5}), 3},
                                                {reals({1, 4}, {-1, -1, 3, 2}), 2}};
  for (const auto& [region, places] : regions) {
    Attrs attrs{{"output_height", int64_t{2}}, {"output_width", int64_t{2}}};
    const Tensor adaptive = decomposed(OpKind::RoiAlign, {image, region, ints({1}, {0})}, attrs);
    attrs.push_back({"sampling_ratio", places});
    CHECK(relative_error(adaptive, decomposed(OpKind::RoiAlign, {image, region, ints({1}, {0})}, attrs)) < 1e-6);
  }
}

TEST_CASE("pooled regions: corners belong to the region, and a bin outside of the image is 0") {
  const Attrs attrs{{"pooled_shape", Axes{1, 2}}};
  CHECK(relative_error(decomposed(OpKind::MaxRoiPool, {kRow, reals({2, 5}, {0, 0, 0, 2, 0, 0, 2, 0, 5, 0})}, attrs),
                       reals({2, 1, 1, 2}, {2, 3, 4, 0})) == 0);
}

TEST_CASE("blocks of an image are added up, maxima put back") {
  const Attrs attrs{{"block_shape", Axes{1, 2}}, {"image_shape", Axes{1, 3}}};
  CHECK(relative_error(decomposed(OpKind::Col2Im, {reals({1, 2, 2}, {1, 2, 10, 20})}, attrs),
                       reals({1, 1, 1, 3}, {1, 12, 20})) == 0);
  const Attrs unpool{{"kernel_shape", Axes{2}}, {"output_shape", Axes{1, 1, 5}}, {"strides", Axes{2}}};
  CHECK(relative_error(decomposed(OpKind::MaxUnpool, {reals({1, 1, 2}, {7, 8}), ints({1, 1, 2}, {1, 2})}, unpool),
                       reals({1, 1, 5}, {0, 7, 8, 0, 0})) == 0);
}

TEST_CASE("the indices of maxima: the reference and the decomposition give the same") {
  Tensor image(DType::F32, {2, 2, 4, 5});
  for (int64_t i = 0; i < image.size(); ++i) image.real[i] = static_cast<double>(i * 7 % 11);
  for (const int64_t order : {0, 1}) {
    const Attrs attrs{{"dilations", Axes{1, 2}},
                      {"kernel_shape", Axes{3, 2}},
                      {"pads", Axes{1, 1, 1, 0}},
                      {"storage_order", order},
                      {"strides", Axes{2, 1}}};
    OneOp one;
    REQUIRE(one.add(OpKind::MaxPool, {one.input(image)}, attrs, 2));
    const std::vector<Tensor> whole = one.run();
    REQUIRE(one.decompose());
    const std::vector<Tensor> parts = one.run();
    CHECK(relative_error(parts[0], whole[0]) == 0);
    CHECK(relative_error(parts[1], whole[1]) == 0);
  }
}

}  // namespace weftc

// How many windows an image of run-time length has, and its padding, are what they are for each length that is known.
#include <doctest/doctest.h>

#include "ir/ops/window.h"
#include "ops_test.h"

namespace weftc {

namespace {

constexpr int64_t kMost = 12;

/// A pool over one dimension: of that extent, or of a length up to it.
OneOp pool(const Attrs& attrs, int64_t extent, bool is_open) {
  OneOp one;
  const ValueId x = one.input(Tensor(DType::F32, {1, 1, extent}));
  TensorType type = one.module.graph.type(x);
  if (is_open) type.shape[2] = run_time_extent(extent, Length::named("n", extent));
  one.module.graph.retype(x, type);
  REQUIRE(one.add(OpKind::AveragePool, {x}, attrs));
  return one;
}

/// Compares all lengths that a window fits into.
void check_lengths(const Attrs& attrs, int64_t least) {
  const OneOp open = pool(attrs, kMost, true);
  const Op& op = open.module.graph.op(open.op);
  const Extent count = open.module.graph.type(op.outputs[0]).shape[2];
  const Length before = padding_before(op, 0, Length::named("n", kMost));
  for (int64_t n = least; n <= kMost; ++n) {
    const OneOp fixed = pool(attrs, n, false);
    const Op& known = fixed.module.graph.op(fixed.op);
    CAPTURE(n);
    CHECK(number_of(length_of(count), {{"n", n}}) == fixed.module.graph.type(known.outputs[0]).shape[2].bound);
    CHECK(number_of(before, {{"n", n}}) == known.ints("pads")[0]);
  }
  CHECK(count.bound == *number_of(length_of(count), {{"n", kMost}}));
}

std::vector<int64_t> one(int64_t number) { return {number}; }

}  // namespace

TEST_CASE("windows of open images: SAME") {
  for (const char* mode : {"SAME_UPPER", "SAME_LOWER"})
    for (int64_t kernel = 1; kernel <= 5; ++kernel)
      for (int64_t stride = 1; stride <= 4; ++stride)
        for (int64_t dilation = 1; dilation <= 2; ++dilation)
          check_lengths({{"auto_pad", std::string(mode)},
                         {"dilations", one(dilation)},
                         {"kernel_shape", one(kernel)},
                         {"strides", one(stride)}},
                        0);
}

TEST_CASE("windows of open images: ceil_mode") {
  for (int64_t kernel = 1; kernel <= 4; ++kernel)
    for (int64_t stride = 1; stride <= 4; ++stride)
      for (int64_t before = 0; before <= 2; ++before)
        for (int64_t after = 0; after <= 6; ++after)
          check_lengths({{"ceil_mode", int64_t{1}},
                         {"kernel_shape", one(kernel)},
                         {"pads", std::vector<int64_t>{before, after}},
                         {"strides", one(stride)}},
                        0);
}

}  // namespace weftc

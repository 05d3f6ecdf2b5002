// The strategies that prices choose for convolutions on the host, and that predictions are made of the same prices.
#include "passes/strategy/convolution_price.h"

#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

const std::string kHead = "<ir_version: 10, opset_import: [\"\" : 20]>\n";

/// The strategy of the kernel that holds the convolution of a model.
std::string chosen(const std::string& model, Target target = {}) {
  const Planned planned = plan_of(kHead + model, "", std::move(target));
  for (const Kernel& kernel : planned.plan.kernels)
    for (OpId id = kernel.body.first(); id; id = kernel.body.next(id))
      if (kernel.body.op(id).kind == OpKind::Conv) return strategy_text(kernel.strategy);
  return "";
}

/// Predicted seconds of the kernel of a convolution by one strategy.
double seconds_by(const std::string& model, const Strategy& strategy) {
  const Planned planned = plan_of(kHead + model);
  for (const Kernel& kernel : planned.plan.kernels)
    if (const auto found = convolution_seconds(strategy, KernelBody(kernel, 1), planned.plan.target)) return *found;
  return 0;
}

const char* const kSpectrum = R"(m (float[1,1,640] x) => (float[1,258,4] y) <float[258,1,256] w = random(1, 0.1)>
{ y = Conv<strides = [128]>(x, w) })";

}  // namespace

TEST_CASE("convolution prices: many filters of one channel read the same windows") {
  CHECK(chosen(kSpectrum) == "direct-convolution");
  CHECK_FALSE(chosen(R"(m (float[1,16,14,14] x) => (float[1,128,14,14] y) <float[128,1,3,3] w = random(1, 0.1)>
{ y = Conv<group = 16, pads = [1, 1, 1, 1]>(x, w) })")
                  .starts_with("plane-convolution"));
}

TEST_CASE("convolution prices: an image that lies in planes is paid for by what wants its channels innermost") {
  const std::string body = "<float[64,64,1,1] w = random(1, 0.1)>\n{ ";
  CHECK(chosen("m (float[1,64,28,28] x) => (float[1,64,28,28] y) " + body + "y = Conv(x, w) }") == "point-convolution");
  CHECK(chosen("m (float[1,64,28,28] x) => (float[1,64,1,1] y) " + body +
               "s = Sigmoid(x) c = Conv(s, w) y = GlobalAveragePool(c) }")
            .starts_with("direct-convolution as a product"));
}

TEST_CASE("convolution prices: one filter a channel, constant or not") {
  const std::string body = "{ y = Conv<group = 48, pads = [3, 3, 3, 3]>(x, w) }";
  CHECK(chosen("m (float[8,48,16,16] x) => (float[8,48,16,16] y) <float[48,1,7,7] w = random(1, 0.1)>\n" + body) ==
        "channel-convolution, image transposed first");
  CHECK(chosen("m (float[8,48,16,16] x, float[48,1,7,7] w) => (float[8,48,16,16] y)\n" + body) ==
        "channel-convolution, filters transposed first, image transposed first");
}

TEST_CASE("convolution prices: filters of all channels, constant or not") {
  const std::string body = "{ y = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w) }";
  CHECK(chosen("m (float[8,64,16,16] x, float[64,64,3,3] w) => (float[8,64,8,8] y)\n" + body) ==
        "direct-convolution, filters transposed first, image transposed first");
}

TEST_CASE("convolution prices: the derivative of depthwise filters sums over the images of a batch") {
  CHECK(chosen(R"(m (float[1,384,16,16] x, float[48,8,16,16] g) => (float[1,48,7,7] y)
{ y = Conv<group = 48, pads = [3, 3, 3, 3]>(x, g) })") ==
        "channel-convolution, filters transposed first, image transposed first");
}

TEST_CASE("convolution prices: predictions tell slow strategies from fast ones") {
  const double planes = seconds_by(kSpectrum, PlaneConvolution{}), direct = seconds_by(kSpectrum, DirectConvolution{});
  CHECK(planes > 30 * direct);
  CHECK(planes < 1e-3);
  CHECK(direct > 2e-6);
}

TEST_CASE("convolution prices: windows of one element with few filters are products of planes") {
  // Sigmoid and the pool take images as they come.
  const auto lone = [](const std::string& filters, const std::string& size) {
    return chosen(
        "m (float[1,64," + size + "] x) => (float[1," + filters + ",1,1] y) <float[" + filters +
            ",64,1,1] w = random(1, 0.1)>\n{ s = Sigmoid(x) c = Conv(s, w) r = Relu(c) y = GlobalAveragePool(r) }",
        host_target({"x86-64-v4"}));
  };
  CHECK(lone("1", "56,56") == "point-convolution");
  CHECK(lone("64", "14,14") == "direct-convolution as a product, short");
}

TEST_CASE("convolution prices: many filters of few terms are the rows of a product") {
  // Sigmoid and the pool take images as they come.
  const auto line = [](const std::string& filters, const std::string& taps) {
    return chosen("m (float[1,1,640] x) => (float[1," + filters + ",1] y) <float[" + filters + ",1," + taps +
                  "] w = random(1, 0.1)>\n{ s = Sigmoid(x) c = Conv<auto_pad = \"SAME_UPPER\">(s, w) r = Relu(c) " +
                  "y = GlobalAveragePool(r) }");
  };
  CHECK(line("64", "3").starts_with("unfolded-convolution"));
  CHECK(line("258", "3").starts_with("unfolded-convolution"));
  CHECK(line("64", "65") == "direct-convolution");
}

TEST_CASE("convolution prices: a tile of filters takes its time whether or not it is full") {
  const auto unfolded = [](const std::string& filters) {
    return seconds_by("m (float[1,1,640] x) => (float[1," + filters + ",640] y) <float[" + filters +
                          ",1,3] w = random(1, 0.1)>\n{ y = Conv<pads = [1, 1]>(x, w) }",
                      UnfoldedConvolution{});
  };
  CHECK(unfolded("6") < 1.3 * unfolded("1"));
  CHECK(unfolded("7") > 1.25 * unfolded("6"));
}

TEST_CASE("convolution prices: a convolution between others reads images as they leave them") {
  const std::string weights = R"(<float[64,64,3,3] w = random(1, 0.1), float[3,64,1,1] v = random(2, 0.1),
float[64,3,3,3] u = random(3, 0.1)>)";
  const Planned planned = plan_of(kHead + "m (float[1,64,56,56] x) => (float[1,64,1,1] y)\n" + weights + R"(
{ s = Sigmoid(x) [a] a = Conv<pads = [1, 1, 1, 1]>(s, w) [b] b = Conv(a, v) [c] c = Conv<pads = [1, 1, 1, 1]>(b, u)
  y = GlobalAveragePool(c) })");
  std::vector<std::string> strategies;
  for (const Kernel& kernel : planned.plan.kernels)
    for (OpId id = kernel.body.first(); id; id = kernel.body.next(id))
      if (kernel.body.op(id).kind == OpKind::Conv) strategies.push_back(strategy_text(kernel.strategy));
  REQUIRE(strategies.size() == 3);
  CHECK(strategies[0].starts_with("winograd-convolution"));
  CHECK(strategies[1].starts_with("direct-convolution"));
  CHECK(strategies[2] == "direct-convolution");
}

TEST_CASE("convolution prices: the memory that holds the filters decides how many outputs a tile has") {
  const auto tile = [](const std::string& channels, const std::string& size) {
    const std::string image = "float[1," + channels + "," + size + "," + size + "]";
    return chosen("m (" + image + " x) => (" + image + " y) <float[" + channels + "," + channels +
                  ",3,3] w = random(1, 0.1)>\n{ y = Conv<pads = [1, 1, 1, 1]>(x, w) }");
  };
  for (const char* channels : {"64", "128"}) CHECK(tile(channels, "14").starts_with("winograd-convolution F(4x4"));
  CHECK(tile("256", "14").starts_with("winograd-convolution F(2x2"));
  for (const char* channels : {"128", "256"}) CHECK(tile(channels, "7").starts_with("winograd-convolution F(2x2"));
  CHECK(tile("512", "7").starts_with("direct-convolution"));
}

TEST_CASE("convolution prices: minimal filtering and products of planes have prices") {
  const std::string model = R"(m (float[1,64,28,28] x) => (float[1,64,28,28] y) <float[64,64,3,3] w = random(1, 0.1)>
{ y = Conv<pads = [1, 1, 1, 1]>(x, w) })";
  WinogradConvolution filtering;
  filtering.copies_image = false, filtering.tile = 4;
  DirectConvolution direct;
  direct.copies_image = false;
  CHECK(seconds_by(model, filtering) > 0);
  CHECK(seconds_by(model, filtering) < 0.6 * seconds_by(model, direct));
}

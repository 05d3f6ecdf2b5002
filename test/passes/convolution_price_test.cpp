// The strategies that prices choose for convolutions on the host, and that predictions are made of the same prices.
#include "passes/strategy/convolution_price.h"

#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

const std::string kHead = "<ir_version: 10, opset_import: [\"\" : 20]>\n";

/// The strategy of the kernel that holds the convolution of a model.
std::string chosen(const std::string& model) {
  const Planned planned = plan_of(kHead + model);
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
  CHECK(chosen(R"(m (float[1,16,14,14] x) => (float[1,128,14,14] y) <float[128,1,3,3] w = random(1, 0.1)>
{ y = Conv<group = 16, pads = [1, 1, 1, 1]>(x, w) })")
            .starts_with("direct-convolution"));
}

TEST_CASE("convolution prices: one filter a channel, constant or not") {
  const std::string body = "{ y = Conv<group = 48, pads = [3, 3, 3, 3]>(x, w) }";
  CHECK(chosen("m (float[8,48,16,16] x) => (float[8,48,16,16] y) <float[48,1,7,7] w = random(1, 0.1)>\n" + body) ==
        "channel-convolution, image transposed first");
  CHECK(chosen("m (float[8,48,16,16] x, float[48,1,7,7] w) => (float[8,48,16,16] y)\n" + body) ==
        "channel-convolution, filters transposed first, image transposed first");
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

// The scalar functions of emitted kernels against libm in double, and ONNX's integer arithmetic.
#include "weft/math.h"

#include <doctest/doctest.h>

#include <cstring>

#include "../larger.h"

using namespace weft;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// The largest error relative to the result (absolute below 1e-30), over a sweep.
template <class F, class G>
double worst(F ours, G exact, double low, double high) {
  double error = 0;
  constexpr int kSteps = 200000;
  for (int i = 0; i <= kSteps; ++i) {
    const float x = float(low + (high - low) * i / kSteps);
    const double want = exact(double(x));
    error = larger(error, std::fabs(double(ours(x)) - want) / std::max(1e-30, std::fabs(want)));
  }
  return error;
}

#define WEFT_SWEEP(ours, exact, low, high, bound) \
  CHECK(worst([](float x) { return ours(x); }, [](double x) { return exact(x); }, low, high) < bound)

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace

TEST_CASE("math: float functions follow libm") {
  WEFT_SWEEP(weft::exp, std::exp, -86, 88, 3e-7);
  WEFT_SWEEP(weft::log, std::log, 1e-30, 0.9, 4e-7);
  WEFT_SWEEP(weft::log, std::log, 0.9, 1.1, 4e-7);
  WEFT_SWEEP(weft::log, std::log, 1.1, 1e30, 4e-7);
  WEFT_SWEEP(weft::log1p, std::log1p, -0.9, 3, 4e-7);
  WEFT_SWEEP(weft::tanh, std::tanh, -10, 10, 4e-7);
  WEFT_SWEEP(weft::tanh, std::tanh, -1e-3, 1e-3, 4e-7);
  WEFT_SWEEP(weft::erf, std::erf, -6, 6, 4e-7);
  WEFT_SWEEP(weft::sigmoid, exact_sigmoid, -87, 100, 4e-7);
  WEFT_SWEEP(weft::gelu_erf, exact_gelu, -1, 20, 1e-6);
}

TEST_CASE("math: gelu's tail is small in absolute terms") {
  for (float x = -12; x < -1; x += 0.01f) CHECK(std::fabs(gelu_erf(x) - exact_gelu(x)) < 4e-7);
}

TEST_CASE("math: infinities, NaN and large arguments") {
  CHECK(weft::exp(-kInf) == 0);
  CHECK(weft::exp(kInf) == kInf);
  CHECK(weft::exp(-1e30f) == 0);
  CHECK(weft::exp(1e30f) == kInf);
  CHECK(weft::exp(-100.0f) == doctest::Approx(std::exp(-100.0)).epsilon(0.02));  // subnormal
  CHECK(weft::exp(0.0f) == 1);
  CHECK(std::isnan(weft::exp(kNan)));
  CHECK(weft::log(0.0f) == -kInf);
  CHECK(std::isnan(weft::log(-1.0f)));
  CHECK(weft::log(kInf) == kInf);
  CHECK(std::isnan(weft::log(kNan)));
  CHECK(weft::log(1e-40f) == doctest::Approx(std::log(1e-40)).epsilon(1e-4));
  CHECK(weft::log1p(-1.0f) == -kInf);
  CHECK(weft::log1p(kInf) == kInf);
  CHECK(weft::tanh(kInf) == 1);
  CHECK(weft::tanh(-kInf) == -1);
  CHECK(std::isnan(weft::tanh(kNan)));
  CHECK(std::signbit(weft::tanh(-0.0f)));
  CHECK(weft::tanh(1e-40f) == doctest::Approx(1e-40).epsilon(1e-4));
  CHECK(weft::erf(kInf) == 1);
  CHECK(weft::erf(-kInf) == -1);
  CHECK(std::isnan(weft::erf(kNan)));
  CHECK(weft::sigmoid(-kInf) == 0);
  CHECK(weft::sigmoid(kInf) == 1);
  CHECK(weft::sigmoid(-88.5f) < 1e-37f);  // subnormal
  CHECK(std::isnan(weft::sigmoid(kNan)));
  CHECK(weft::softplus(-kInf) == 0);
  CHECK(weft::softplus(kInf) == kInf);
  CHECK(std::isnan(weft::softplus(kNan)));
  CHECK(weft::gelu_tanh(kInf) == kInf);
}

TEST_CASE("math: every half survives the way to float and back") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    half h;
    h.bits = uint16_t(bits);
    const float f = h;
    if (f != f) {
      CHECK(std::isnan(float(half(f))));
    } else if (half(f).bits != bits) {
      FAIL("half " << bits << " came back as " << half(f).bits);
    }
  }
  CHECK(float(half(65504.0f)) == 65504);
  CHECK(float(half(65519.0f)) == 65504);
  CHECK(float(half(65520.0f)) == kInf);
  CHECK(float(half(1 + 1 / 2048.0f)) == 1);  // ties to even
  CHECK(float(half(1 + 3 / 2048.0f)) == 1 + 2 / 1024.0f);
  CHECK(float(half(0x1p-25f)) == 0);
  CHECK(float(half(0x1.8p-25f)) == 0x1p-24f);
  CHECK(float(bfloat16(1 + 1 / 256.0f)) == 1);
  CHECK(float(bfloat16(-kInf)) == -kInf);
  CHECK(std::isnan(float(bfloat16(kNan))));
}

TEST_CASE("math: integer arithmetic as ONNX has it") {
  CHECK(int_div(-7, 2) == -3);
  CHECK(int_div(7, 0) == 0);
  CHECK(int_div(INT32_MIN, -1) == INT32_MIN);
  CHECK(int_div<int8_t>(-128, -1) == -128);
  CHECK(int_rem(-7, 3) == -1);
  CHECK(int_rem(INT64_MIN, int64_t{-1}) == 0);
  CHECK(int_mod(-7, 3) == 2);
  CHECK(int_mod(7, -3) == -2);
  CHECK(int_mod(6, -3) == 0);
  CHECK(int_mod(5, 0) == 0);
  CHECK(int_mod<uint8_t>(250, 7) == 5);
  CHECK(int_pow(3, 4) == 81);
  CHECK(int_pow(-2, int64_t{3}) == -8);
  CHECK(int_pow(-1, -3) == -1);
  CHECK(int_pow(2, -1) == 0);
  CHECK(int_pow<int8_t>(2, 7) == -128);
  CHECK(int_pow(int64_t{10}, 19) == int64_t(10000000000000000000u));
  CHECK(abs(INT32_MIN) == INT32_MIN);
  CHECK(abs(int8_t{-5}) == 5);
  CHECK(abs(-0.5) == 0.5);
}

TEST_CASE("math: modulo of floats, rounding, clamping") {
  CHECK(floor_mod(-7.0f, 3.0f) == 2);
  CHECK(floor_mod(7.5, -3.0) == -1.5);
  CHECK(weft::fmod(-7.0f, 3.0f) == -1);
  CHECK(round_even(2.5f) == 2);
  CHECK(round_even(-3.5) == -4);
  CHECK(clamp(2.0f, 0.0f, 1.0f) == 1);
  CHECK(std::isnan(clamp(kNan, 0.0f, 1.0f)));
  CHECK(weft::pow(2.0f, int64_t{10}) == 1024);
  CHECK(is_inf(-kInf));
  CHECK(!is_inf(kNan));
  CHECK(std::isnan(weft::max(kNan, 1.0f)));
  CHECK(std::isnan(weft::min(1.0f, kNan)));
}

TEST_CASE("math: casts") {
  CHECK(cast<int32_t>(3.9f) == 3);
  CHECK(cast<int32_t>(-3.9f) == -3);
  CHECK(cast<int32_t>(0x1p32f + 512) == 512);
  CHECK(cast<int32_t>(1e20f) == 0);
  CHECK(cast<int64_t>(kNan) == INT64_MIN);
  CHECK(cast<uint8_t>(-1.0f) == 255);
  CHECK(cast<uint64_t>(1e19) == 10000000000000000000u);
  CHECK(cast<uint64_t>(1e20) == UINT64_MAX);
  CHECK(cast<bool>(0.5f));
  CHECK(!cast<bool>(-0.0f));
  CHECK(cast<int8_t>(int64_t{300}) == 44);
  CHECK(float(cast<half>(int64_t{3})) == 3);
  CHECK(cast<int16_t>(half(2.5f)) == 2);
  CHECK(cast<float>(true) == 1);
}

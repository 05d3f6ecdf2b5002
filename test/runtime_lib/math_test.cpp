// The scalar functions of emitted kernels against libm in double, in loops as kernels have them and with their
// compiler's options, and ONNX's integer arithmetic.
#include "weft/math.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cstring>

#include "../larger.h"

using namespace weft;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// Integers in the order of the floats, and back.
int32_t order_of(float x) {
  const int32_t bits = std::bit_cast<int32_t>(x);
  return bits < 0 ? INT32_MIN - bits : bits;
}
float float_at(int64_t order) { return std::bit_cast<float>(int32_t(order < 0 ? INT32_MIN - order : order)); }

/// The largest error of every 1021st float from `low` to `high`, divided by what `scale` makes of the exact result.
template <class F, class G, class H>
double worst(F ours, G exact, H scale, float low, float high) {
  constexpr int kStep = 1021;
  double error = 0;
  std::array<float, 64> x, y;
  for (int64_t first = order_of(low); first <= order_of(high); first += int64_t{kStep} * 64) {
    for (int i = 0; i < 64; ++i) x[i] = float_at(std::min<int64_t>(first + int64_t{kStep} * i, order_of(high)));
#pragma omp simd
    for (int i = 0; i < 64; ++i) y[i] = ours(x[i]);
    for (int i = 0; i < 64; ++i) {
      const double want = exact(double(x[i]));
      error = larger(error, std::fabs(double(y[i]) - want) / scale(std::fabs(want)));
    }
  }
  return error;
}

/// Relative to the result, to 1e-37 where that is less: results may be subnormal, or 0 instead.
#define WEFT_SWEEP(ours, exact, low, high, bound)                                 \
  CHECK(worst([](float x) { return ours(x); }, [](double x) { return exact(x); }, \
              [](double want) { return std::max(1e-37, want); }, low, high) < bound)
#define WEFT_SWEEP_ABSOLUTE(ours, exact, low, high, bound)                                                         \
  CHECK(worst([](float x) { return ours(x); }, [](double x) { return exact(x); }, [](double) { return 1.0; }, low, \
              high) < bound)

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double exact_gelu_tanh(double x) { return x / (1 + std::exp(-2 * 0.79788456080286536 * (x + 0.044715 * x * x * x))); }

}  // namespace

TEST_CASE("math: float functions follow libm") {
  WEFT_SWEEP(weft::exp, std::exp, -86.9f, 88.72f, 1e-7);
  WEFT_SWEEP(weft::exp_of_negative, std::exp, -16.0f, 0.0f, 2.2e-7);
  WEFT_SWEEP(weft::exp_of_negative, std::exp, -86.9f, -16.0f, 4e-7);
  WEFT_SWEEP(weft::log, std::log, 1e-38f, 3e38f, 4e-7);
  WEFT_SWEEP(weft::log1p, std::log1p, -0.9f, 3.0f, 4e-7);
  WEFT_SWEEP(weft::tanh, std::tanh, -3e38f, 3e38f, 3.5e-7);
  WEFT_SWEEP(weft::erf, std::erf, -3e38f, 3e38f, 4e-7);
  WEFT_SWEEP(weft::sigmoid, exact_sigmoid, -86.0f, 100.0f, 2e-7);
  WEFT_SWEEP(weft::gelu_erf, exact_gelu, -1.0f, 3e38f, 5e-7);
  WEFT_SWEEP_ABSOLUTE(weft::gelu_erf, exact_gelu, -3e38f, -1.0f, 1.2e-6);
  WEFT_SWEEP(weft::gelu_tanh, exact_gelu_tanh, -4.0f, 3e38f, 1.2e-6);
  WEFT_SWEEP_ABSOLUTE(weft::gelu_tanh, exact_gelu_tanh, -3e38f, -4.0f, 1e-9);
}

TEST_CASE("math: a loop of exponentials has its limits where a float has them") {
  const std::array<float, 8> x = {kInf, -kInf, kNan, 88.73f, 88.7228f, -86.9f, -88.0f, -3e38f};
  std::array<float, 8> y;
#pragma omp simd
  for (size_t i = 0; i < x.size(); ++i) y[i] = weft::exp(x[i]);
  CHECK(y[0] == kInf);
  CHECK(y[1] == 0);
  CHECK(std::isnan(y[2]));
  CHECK(y[3] == kInf);
  CHECK(y[4] == doctest::Approx(3.4028e38).epsilon(1e-4));
  CHECK(y[5] == doctest::Approx(std::exp(-86.9)).epsilon(1e-6));
  CHECK(y[6] == 0);
  CHECK(y[7] == 0);
}

TEST_CASE("math: exponentials of distances from a maximum") {
  constexpr std::array<float, 8> kDistances = {0.0f, -kInf, kNan, -3e38f, -88.0f, -86.9f, 1e-6f, -1e-30f};
  std::array<float, 8> y;
#pragma omp simd
  for (size_t i = 0; i < y.size(); ++i) y[i] = weft::exp_of_negative(kDistances[i]);
  CHECK(y[0] == 1);
  CHECK(y[1] == 0);
  CHECK(std::isnan(y[2]));
  CHECK(y[3] == 0);
  CHECK(y[4] == 0);
  CHECK(y[5] == doctest::Approx(std::exp(-86.9)).epsilon(1e-6));
  CHECK(y[6] == doctest::Approx(1.0).epsilon(2e-6));
  CHECK(y[7] == 1);
}

/// Read from the executable by kernel_code_check.py.
extern "C" [[gnu::noinline]] void weft_test_clip(float* y, const float* x, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = weft::minimum(weft::maximum(x[i], 0.0f), 6.0f);
}

TEST_CASE("math: NaN wins over constants and among numbers") {
  constexpr std::array<float, 8> kNumbers = {kNan, -kInf, -1.0f, 3.0f, 7.0f, kInf, kNan, 6.0f};
  std::array<float, 8> clipped, most, least, into;
  weft_test_clip(clipped.data(), kNumbers.data(), 8);
#pragma omp simd
  for (size_t i = 0; i < 8; ++i) {
    const float other = kNumbers[(i + 1) % 8];
    most[i] = weft::maximum(kNumbers[i], other), least[i] = weft::minimum(kNumbers[i], other);
    into[i] = weft::minimum(6.0f, weft::maximum(0.0f, kNumbers[i]));
  }
  for (size_t i = 0; i < 8; ++i) {
    const float x = kNumbers[i], other = kNumbers[(i + 1) % 8];
    const float within = std::min(std::max(x, 0.0f), 6.0f);
    const bool is_nan = std::isnan(x) || std::isnan(other);
    CAPTURE(i);
    CHECK((std::isnan(x) ? std::isnan(clipped[i]) : clipped[i] == within));
    CHECK((std::isnan(x) ? std::isnan(into[i]) : into[i] == within));
    CHECK((is_nan ? std::isnan(most[i]) : most[i] == std::max(x, other)));
    CHECK((is_nan ? std::isnan(least[i]) : least[i] == std::min(x, other)));
  }
  typedef float Vector __attribute__((vector_size(16)));
  const Vector larger = weft::maximum(Vector{kNan, 1, 2, 3}, Vector{0, kNan, 5, 1});
  const Vector smaller = weft::minimum(Vector{kNan, 1, 2, 3}, Vector{0, kNan, 5, 1});
  CHECK((std::isnan(larger[0]) && std::isnan(larger[1]) && larger[2] == 5 && larger[3] == 3));
  CHECK((std::isnan(smaller[0]) && std::isnan(smaller[1]) && smaller[2] == 2 && smaller[3] == 1));
  CHECK(weft::maximum(-2.5, -1.0) == -1.0);
  CHECK(std::isnan(weft::minimum(double(kNan), 1.0)));
  CHECK(weft::maximum(7, 3) == 7);
  static_assert(weft::maximum(1.0f, 2.0f) == 2 && weft::minimum(1.0f, 2.0f) == 1);
}

TEST_CASE("math: infinities, NaN and large arguments") {
  CHECK(weft::exp(-kInf) == 0);
  CHECK(weft::exp(kInf) == kInf);
  CHECK(weft::exp(-1e30f) == 0);
  CHECK(weft::exp(1e30f) == kInf);
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
  CHECK(weft::gelu_tanh(-1e30f) == 0);
  CHECK(weft::gelu_erf(kInf) == kInf);
  CHECK(std::fabs(weft::gelu_erf(-kInf)) < 1.2e-6f);
  CHECK(std::isnan(weft::gelu_erf(kNan)));
  CHECK(std::isnan(weft::gelu_tanh(kNan)));
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
  CHECK(std::signbit(floor_mod(6.0f, -3.0f)));
  CHECK_FALSE(std::signbit(floor_mod(-0.0f, 3.0f)));
  CHECK(floor_mod(-2.0f, INFINITY) == INFINITY);
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

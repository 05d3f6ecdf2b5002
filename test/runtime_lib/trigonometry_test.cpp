// Trigonometric functions of emitted kernels against libm in double: sine and cosine over all floats, which `full`
// takes one by one and the default test in steps.
#include "weft/trigonometry.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <future>
#include <thread>
#include <vector>

#include "../effort.h"

using namespace weft;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kInfBits = 0x7f800000;

float of_bits(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

/// The error in units of the last place of the float next to `exact`; infinite of a NaN.
double units(float ours, double exact) {
  if (std::isnan(ours)) return kInf;
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::fabs(double(ours) - exact) / std::ldexp(1.0, exponent - 23);
}

/// A loop over both, which vectorises where the test is compiled for a machine with vectors.
void sines_and_cosines(const float* x, float* sines, float* cosines, int count) {
#pragma omp simd
  for (int i = 0; i < count; ++i) sines[i] = weft::sin(x[i]), cosines[i] = weft::cos(x[i]);
}

struct Worst {
  double sine = 0, cosine = 0;
  uint32_t at_sine = 0, at_cosine = 0, wrong_signs = 0;
  void add(const Worst& other) {
    if (other.sine > sine) sine = other.sine, at_sine = other.at_sine;
    if (other.cosine > cosine) cosine = other.cosine, at_cosine = other.at_cosine;
    wrong_signs += other.wrong_signs;
  }
};

/// Every `step`-th finite float from that of bits `first` on, with both signs: sine is odd and cosine even, bit by bit.
Worst worst_of(uint64_t first, uint64_t step) {
  constexpr int kBlock = 1024;
  std::vector<float> x(2 * kBlock), sines(2 * kBlock), cosines(2 * kBlock);
  Worst worst;
  for (uint64_t bits = first; bits < kInfBits;) {
    int count = 0;
    for (; count < kBlock && bits < kInfBits; ++count, bits += step)
      x[count] = of_bits(uint32_t(bits)), x[kBlock + count] = -x[count];
    for (int half = 0; half < 2; ++half)
      sines_and_cosines(&x[half * kBlock], &sines[half * kBlock], &cosines[half * kBlock], count);
    for (int i = 0; i < count; ++i) {
      const double sine = units(sines[i], std::sin(double(x[i]))), cosine = units(cosines[i], std::cos(double(x[i])));
      worst.add({sine, cosine, bits_of(x[i]), bits_of(x[i]),
                 uint32_t(bits_of(sines[kBlock + i]) != bits_of(-sines[i]) ||
                          bits_of(cosines[kBlock + i]) != bits_of(cosines[i]))});
    }
  }
  return worst;
}

Worst worst_of(uint64_t step) {
  const uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::future<Worst>> parts;
  for (uint64_t t = 0; t < threads; ++t)
    parts.push_back(std::async(std::launch::async, [=] { return worst_of(t * step, threads * step); }));
  Worst worst;
  for (std::future<Worst>& part : parts) worst.add(part.get());
  return worst;
}

/// The largest error relative to the result, over a sweep.
template <class F, class G>
double worst_relative(F ours, G exact, double low, double high) {
  double error = 0;
  constexpr int kSteps = 200000;
  for (int i = 0; i <= kSteps; ++i) {
    const float x = float(low + (high - low) * i / kSteps);
    const double want = exact(double(x));
    const double off = std::fabs(double(ours(x)) - want);
    if (want != 0) error = std::max(error, std::isnan(off) ? kInf : off / std::fabs(want));
  }
  return error;
}

#define WEFT_FOLLOWS(name, low, high) \
  CHECK(worst_relative([](float x) { return weft::name(x); }, [](double x) { return std::name(x); }, low, high) < 4e-7)

}  // namespace

TEST_CASE("trigonometry: sine and cosine of all floats") {
  const Worst worst = worst_of(is_full() ? 1 : 8191);
  INFO("sine of bits " << worst.at_sine << ", cosine of bits " << worst.at_cosine);
  CHECK(worst.sine < 1.5);
  CHECK(worst.cosine < 1.5);
  CHECK(worst.wrong_signs == 0);
}

TEST_CASE("trigonometry: sine and cosine near multiples of a right angle") {
  for (double count = 1; count < 0x1p127; count = count < 3000 ? count + 1 : std::floor(count * 1.01))
    for (int off = -1; off <= 1; ++off) {
      const float x = of_bits(bits_of(float(count * 1.5707963267948966)) + uint32_t(off));
      float sine, cosine;
      sines_and_cosines(&x, &sine, &cosine, 1);
      if (!(units(sine, std::sin(double(x))) < 1.5) || !(units(cosine, std::cos(double(x))) < 1.5)) FAIL(x);
    }
}

TEST_CASE("trigonometry: the largest errors of simpler reductions") {
  // Beyond 2^100 a sum of both products has no fraction bits left. The others are numbers whose angle and sine have
  // different exponents.
  for (uint32_t bits : {1917720705u, 1911489423u, 1633046923u, 1379780771u}) {
    const double x = of_bits(bits);
    CHECK(units(weft::sin(float(x)), std::sin(x)) < 1.5);
    CHECK(units(weft::cos(float(x)), std::cos(x)) < 1.5);
  }
}

TEST_CASE("trigonometry: infinities, NaN and zeros") {
  for (float x : {kInf, -kInf, kNan}) {
    CHECK(std::isnan(weft::sin(x)));
    CHECK(std::isnan(weft::cos(x)));
    CHECK(std::isnan(weft::tan(x)));
  }
  CHECK(bits_of(weft::sin(-0.0f)) == bits_of(-0.0f));
  CHECK(bits_of(weft::tan(-0.0f)) == bits_of(-0.0f));
  CHECK(weft::cos(0.0f) == 1);
  for (float x : {1.5f, -1.5f, kInf, kNan}) {
    CHECK(std::isnan(weft::asin(x)));
    CHECK(std::isnan(weft::acos(x)));
    CHECK(std::isnan(weft::atanh(x)));
  }
  for (float x : {0.5f, -0.5f, -3.0f, -1e20f, -kInf, kNan}) CHECK(std::isnan(weft::acosh(x)));
  CHECK(weft::acos(1.0f) == 0);
  CHECK(weft::atanh(1.0f) == kInf);
  CHECK(weft::sinh(-kInf) == -kInf);
  CHECK(weft::cosh(-kInf) == kInf);
  CHECK(weft::asinh(-kInf) == -kInf);
  CHECK(weft::acosh(kInf) == kInf);
  CHECK(weft::atan(-kInf) == doctest::Approx(-1.5707963));
  for (float x : {kNan}) {
    CHECK(std::isnan(weft::atan(x)));
    CHECK(std::isnan(weft::sinh(x)));
    CHECK(std::isnan(weft::cosh(x)));
    CHECK(std::isnan(weft::asinh(x)));
  }
}

TEST_CASE("trigonometry: the other functions follow libm") {
  WEFT_FOLLOWS(tan, -100, 100);
  WEFT_FOLLOWS(tan, -1e6, 1e6);
  WEFT_FOLLOWS(asin, -1, 1);
  WEFT_FOLLOWS(acos, -1, 1);
  WEFT_FOLLOWS(atan, -4, 4);
  WEFT_FOLLOWS(atan, -1e6, 1e6);
  WEFT_FOLLOWS(sinh, -2, 2);
  WEFT_FOLLOWS(sinh, -89.4, 89.4);
  WEFT_FOLLOWS(cosh, -89.4, 89.4);
  WEFT_FOLLOWS(asinh, -3, 3);
  WEFT_FOLLOWS(asinh, -1e30, 1e30);
  WEFT_FOLLOWS(acosh, 1, 3);
  WEFT_FOLLOWS(acosh, 1, 1e30);
  WEFT_FOLLOWS(atanh, -0.9999, 0.9999);
}

// Floats of at most 8 bits against their definition, which library functions compute. Every code is read. Numbers with
// every sign, exponent and start of a mantissa are rounded: those of a format, their middles, and what lies next to
// them.
#include "weft/small_types.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace weft;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

template <class T>
struct Definition;

template <int kExponent, int kMantissa, int kBias, Specials kSpecials>
struct Definition<small_float<kExponent, kMantissa, kBias, kSpecials>> {
  static constexpr int kSignBit = kExponent + kMantissa, kOnes = (1 << kSignBit) - 1;
  static constexpr int kLargest = kOnes - (kSpecials == Specials::Infinities ? 1 << kMantissa
                                           : kSpecials == Specials::AllOnes  ? 1
                                                                             : 0);

  static float value(int code) {
    const int magnitude = code & kOnes, exponent = magnitude >> kMantissa, mantissa = magnitude % (1 << kMantissa);
    const float sign = code >> kSignBit & 1 ? -1.0f : 1.0f;
    if (kSpecials == Specials::MinusZero && code == 1 << kSignBit) return kNan;
    if (magnitude > kLargest) return kSpecials == Specials::Infinities && mantissa == 0 ? sign * kInfinity : kNan;
    const int units = exponent ? (1 << kMantissa) + mantissa : mantissa;
    return sign * std::ldexp(float(units), (exponent ? exponent : 1) - kBias - kMantissa);
  }

  static int code(float x, bool saturates) {
    const int sign = std::signbit(x) ? 1 << kSignBit : 0;
    const bool has_nan = kSpecials == Specials::Infinities || kSpecials == Specials::AllOnes;
    if (std::isnan(x)) return has_nan ? sign | kOnes : 1 << kSignBit;
    const int code = code_of(std::fabs(x));
    if (code == 0 && kSpecials == Specials::MinusZero) return 0;
    if (code <= kLargest) return sign | code;
    if (saturates || kSpecials == Specials::None) return sign | kLargest;
    return kSpecials == Specials::MinusZero ? 1 << kSignBit : sign | (kLargest + 1);
  }

 private:
  static int code_of(float magnitude) {
    if (magnitude > 2 * value(kLargest)) return kLargest + 1;
    const int exponent = magnitude == 0 ? 1 - kBias : std::max(1 - kBias, std::ilogb(magnitude));
    return ((exponent + kBias - 1) << kMantissa) + int(std::nearbyint(std::ldexp(magnitude, kMantissa - exponent)));
  }
};

template <>
struct Definition<float8e8m0> {
  static float value(int code) { return code == 255 ? kNan : std::ldexp(1.0f, code - 127); }
  static int code(float x, bool saturates, int direction) {
    if (std::isnan(x) || x < 0) return 255;
    if (std::isinf(x)) return saturates ? 254 : 255;
    if (x < 0x1p-127f) return saturates ? 0 : 255;
    const int exponent = std::ilogb(x);
    const float over = std::ldexp(x, -exponent);
    const int power = exponent + int(direction == 0 ? over > 1 : direction == 2 && over >= 1.5f);
    return power > 127 ? (saturates ? 254 : 255) : power + 127;
  }
};

/// Calls visit with numbers that lie on all sides of whatever a format rounds at: it keeps 3 bits of a mantissa.
template <class Visit>
void each_number(const Visit& visit) {
  for (uint32_t high = 0; high < 1 << 16; ++high)
    for (const uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      visit(std::bit_cast<float>(high << 16 | low));
}

bool is_same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

template <class T>
int wrong_values() {
  int wrong = 0;
  for (int code = 0; code < 256; ++code) {
    T number;
    number.bits = uint8_t(code);
    wrong += !is_same(float(number), Definition<T>::value(code));
  }
  return wrong;
}

}  // namespace

TEST_CASE_TEMPLATE("small floats round as defined", T, float8e4m3fn, float8e4m3fnuz, float8e5m2, float8e5m2fnuz,
                   float4e2m1, float6e2m3, float6e3m2) {
  if constexpr (T::Format::kOnes == 127) CHECK(wrong_values<T>() == 0);
  int wrong = 0;
  each_number([&](float x) {
    for (const bool saturates : {false, true})
      wrong += T::rounded(x, saturates, 0).bits != Definition<T>::code(x, saturates);
    wrong += T(x).bits != Definition<T>::code(x, false);
  });
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("codes of fewer than 8 bits have their values", T, float4e2m1, float6e2m3, float6e3m2) {
  for (int code = 0; code < 2 * (T::Format::kOnes + 1); ++code) {
    T number;
    number.bits = uint8_t(code);
    CHECK(float(number) == Definition<T>::value(code));
  }
}

TEST_CASE("powers of two round as defined") {
  CHECK(wrong_values<float8e8m0>() == 0);
  int wrong = 0;
  each_number([&](float x) {
    for (const int direction : {0, 1, 2})
      for (const bool saturates : {false, true})
        wrong +=
            float8e8m0::rounded(x, saturates, direction).bits != Definition<float8e8m0>::code(x, saturates, direction);
  });
  CHECK(wrong == 0);
}

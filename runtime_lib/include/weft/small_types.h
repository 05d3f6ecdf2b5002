// Element types of at most 8 bits, each a byte in memory. Small floats are as ONNX defines them and are computed in
// float; 2-bit and 4-bit integers are computed as 8-bit ones. The format determines the values of a small float's
// codes.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "weft/device_macros.h"

namespace weft {

/// The encoding of infinities and NaN: both with the largest exponent as in IEEE 754; NaN as all ones; NaN as -0;
/// neither.
enum class Specials : uint8_t { Infinities, AllOnes, MinusZero, None };

namespace detail {

template <int kExponent, int kMantissa, int kBias, Specials kSpecials>
struct SmallFloatFormat {
  static constexpr int kSignBit = kExponent + kMantissa, kOnes = (1 << kSignBit) - 1;
  /// The code of the largest number.
  static constexpr int kLargest = kOnes - (kSpecials == Specials::Infinities ? 1 << kMantissa
                                           : kSpecials == Specials::AllOnes  ? 1
                                                                             : 0);

  static WEFT_HD float value(int code) {
    const int magnitude = code & kOnes, mantissa = magnitude & ((1 << kMantissa) - 1);
    const int exponent = magnitude >> kMantissa;
    const bool is_negative = (code >> kSignBit & 1) != 0;
    if (kSpecials == Specials::MinusZero && is_negative && magnitude == 0)
      return std::numeric_limits<float>::quiet_NaN();
    if (magnitude > kLargest)
      return kSpecials == Specials::Infinities && mantissa == 0 ? (is_negative ? -INFINITY : INFINITY)
                                                                : std::numeric_limits<float>::quiet_NaN();
    const float units = float(exponent != 0 ? (1 << kMantissa) + mantissa : mantissa);
    const float value = std::ldexp(units, (exponent != 0 ? exponent : 1) - kBias - kMantissa);
    return is_negative ? -value : value;
  }

  /// Rounds to nearest, ties to even. A value that is too large saturates, or becomes NaN or an infinity.
  static WEFT_HD int code(float x, bool saturates) {
    const int sign = std::signbit(x) ? 1 << kSignBit : 0;
    if (x != x) return kSpecials == Specials::MinusZero || kSpecials == Specials::None ? 1 << kSignBit : sign | kOnes;
    const float magnitude = std::fabs(x);
    int code = kLargest + 1;
    if (magnitude <= 2 * value(kLargest)) {
      const int exponent = magnitude == 0 ? 1 - kBias : std::ilogb(magnitude);
      const int used = exponent < 1 - kBias ? 1 - kBias : exponent;
      // A carry of the rounding moves into the exponent; subnormal numbers have no leading one.
      code = ((used + kBias - 1) << kMantissa) + int(std::nearbyint(std::ldexp(magnitude, kMantissa - used)));
    }
    if (code == 0 && kSpecials == Specials::MinusZero) return 0;
    if (code <= kLargest) return sign | code;
    if (saturates || kSpecials == Specials::None) return sign | kLargest;
    if (kSpecials == Specials::Infinities) return sign | (kLargest + 1);
    return kSpecials == Specials::MinusZero ? 1 << kSignBit : sign | kOnes;
  }
};

}  // namespace detail

/// Conversion from float keeps infinities, so that a conversion to float and back changes no number. `rounded` is
/// ONNX's Cast.
template <int kExponent, int kMantissa, int kBias, Specials kSpecials>
struct small_float {
  using Format = detail::SmallFloatFormat<kExponent, kMantissa, kBias, kSpecials>;
  uint8_t bits;
  small_float() = default;
  WEFT_COPIED_BY_MEMBER(small_float)
  WEFT_HD small_float(float value) : bits(uint8_t(Format::code(value, false))) {}
  WEFT_HD operator float() const { return Format::value(bits); }
  static WEFT_HD small_float rounded(float value, bool saturates, int) {
    small_float result;
    result.bits = uint8_t(Format::code(value, saturates));
    return result;
  }
};
using float8e4m3fn = small_float<4, 3, 7, Specials::AllOnes>;
using float8e4m3fnuz = small_float<4, 3, 8, Specials::MinusZero>;
using float8e5m2 = small_float<5, 2, 15, Specials::Infinities>;
using float8e5m2fnuz = small_float<5, 2, 16, Specials::MinusZero>;
using float4e2m1 = small_float<2, 1, 1, Specials::None>;
using float6e2m3 = small_float<2, 3, 1, Specials::None>;
using float6e3m2 = small_float<3, 2, 3, Specials::None>;

/// A power of two, from 2^-127 to 2^127; 255 is NaN.
struct float8e8m0 {
  uint8_t bits;
  float8e8m0() = default;
  WEFT_COPIED_BY_MEMBER(float8e8m0)
  WEFT_HD float8e8m0(float value) : float8e8m0(rounded(value, false, 0)) {}
  WEFT_HD operator float() const {
    return bits == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, int(bits) - 127);
  }
  /// `direction`: 0 up, 1 down, 2 to nearest, ties up. Negative numbers, which ONNX leaves open, become NaN.
  static WEFT_HD float8e8m0 rounded(float value, bool saturates, int direction) {
    float8e8m0 result;
    const uint8_t too_large = saturates ? 254 : 255;
    if (value != value || value < 0) {
      result.bits = 255;
    } else if (value == INFINITY) {
      result.bits = too_large;
    } else if (value < 0x1p-127f) {
      result.bits = saturates ? 0 : 255;
    } else {
      const int exponent = std::ilogb(value);
      const float over = std::ldexp(value, -exponent);
      const int power = exponent + int(direction == 0 ? over > 1 : direction == 2 && over >= 1.5f);
      result.bits = power > 127 ? too_large : uint8_t(power + 127);
    }
    return result;
  }
};

/// An integer of 2 or 4 bits, held as an 8-bit one of the same value; wider integers wrap.
template <int kBits, bool kSigned>
struct small_int {
  static constexpr int kLowest = kSigned ? -(1 << (kBits - 1)) : 0, kHighest = kLowest + (1 << kBits) - 1;
  int8_t bits;
  small_int() = default;
  WEFT_COPIED_BY_MEMBER(small_int)
  WEFT_HD small_int(int value)
      : bits(int8_t(kSigned ? int32_t(uint32_t(value) << (32 - kBits)) >> (32 - kBits) : value & ((1 << kBits) - 1))) {}
  WEFT_HD operator int8_t() const { return bits; }
};
using signed4 = small_int<4, true>;
using unsigned4 = small_int<4, false>;
using signed2 = small_int<2, true>;
using unsigned2 = small_int<2, false>;

template <class T>
inline constexpr bool is_small_float = false;
template <int kExponent, int kMantissa, int kBias, Specials kSpecials>
inline constexpr bool is_small_float<small_float<kExponent, kMantissa, kBias, kSpecials>> = true;
template <>
inline constexpr bool is_small_float<float8e8m0> = true;
template <class T>
inline constexpr bool is_small_int = false;
template <int kBits, bool kSigned>
inline constexpr bool is_small_int<small_int<kBits, kSigned>> = true;

}  // namespace weft

// Element types of at most 8 bits, each a byte in memory. Small floats are as ONNX defines them and are computed in
// float; 2-bit and 4-bit integers are computed as 8-bit ones. The format determines the values of a small float's
// codes.
#pragma once
#include <bit>
#include <cstdint>

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
    const int magnitude = code & kOnes;
    const uint32_t sign = uint32_t(code >> kSignBit & 1) << 31;
    // A number without a leading one is a multiple of the least number.
    const float multiple = float(magnitude) * least();
    const uint32_t normal = (uint32_t(magnitude) << kDropped) + (uint32_t(kBiasOfFloat - kBias) << kFloatMantissa);
    uint32_t bits = sign | (magnitude < 1 << kMantissa ? std::bit_cast<uint32_t>(multiple) : normal);
    if constexpr (kSpecials == Specials::Infinities) bits = magnitude == kLargest + 1 ? sign | kInfinity : bits;
    if constexpr (kSpecials == Specials::Infinities) bits = magnitude > kLargest + 1 ? kNan : bits;
    if constexpr (kSpecials == Specials::AllOnes) bits = magnitude > kLargest ? kNan : bits;
    if constexpr (kSpecials == Specials::MinusZero) bits = code == 1 << kSignBit ? kNan : bits;
    return std::bit_cast<float>(bits);
  }

  /// Rounds to nearest, ties to even. A value that is too large saturates, or becomes NaN or an infinity. Without
  /// branches, so that loops over elements are vectorised.
  static WEFT_HD int code(float x, bool saturates) {
    const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & ~kSign;
    const int sign = int(bits >> 31) << kSignBit;
    const int rounded = magnitude < kLeastNormal ? code_of_small(magnitude) : code_of_normal(magnitude);
    constexpr bool kHasTooLarge = kSpecials == Specials::Infinities || kSpecials == Specials::AllOnes;
    const int most = saturates || !kHasTooLarge ? kLargest : kLargest + 1;
    int code = sign | (rounded < most ? rounded : most);
    if constexpr (kSpecials == Specials::MinusZero) {
      code = rounded == 0 ? 0 : code;
      code = rounded > kLargest && !saturates ? 1 << kSignBit : code;
    }
    const int nan = kHasTooLarge ? sign | kOnes : 1 << kSignBit;
    return magnitude > kInfinity ? nan : code;
  }

 private:
  static constexpr int kFloatMantissa = 23, kBiasOfFloat = 127, kDropped = kFloatMantissa - kMantissa;
  static constexpr uint32_t kSign = 0x80000000, kInfinity = 0x7f800000, kNan = 0x7fc00000;
  static constexpr uint32_t kLeastNormal = uint32_t(kBiasOfFloat + 1 - kBias) << kFloatMantissa;

  /// The least number above zero.
  static constexpr WEFT_HD float least() {
    return std::bit_cast<float>(uint32_t(kBiasOfFloat + 1 - kBias - kMantissa) << kFloatMantissa);
  }
  /// A carry of the rounding moves into the exponent.
  static WEFT_HD int code_of_normal(uint32_t magnitude) {
    const uint32_t odd = magnitude >> kDropped & 1;
    const uint32_t rounded = (magnitude + (1u << (kDropped - 1)) - 1 + odd) >> kDropped;
    return int(rounded) - ((kBiasOfFloat - kBias) << kMantissa);
  }
  /// An addition rounds to a multiple of the least number, which is the last place of `steps`.
  static WEFT_HD int code_of_small(uint32_t magnitude) {
    const float steps = least() * float(1 << kFloatMantissa);
    return int(std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + steps) - std::bit_cast<uint32_t>(steps));
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
    constexpr uint32_t kNan = 0x7fc00000, kLeast = 0x00400000;
    return std::bit_cast<float>(bits == 255 ? kNan : bits == 0 ? kLeast : uint32_t(bits) << 23);
  }
  /// `direction`: 0 up, 1 down, 2 to nearest, ties up. Negative numbers, which ONNX leaves open, become NaN.
  static WEFT_HD float8e8m0 rounded(float value, bool saturates, int direction) {
    constexpr uint32_t kInfinity = 0x7f800000, kLeastNormal = 0x00800000, kLeast = 0x00400000, kMinusZero = 0x80000000;
    const uint32_t given = std::bit_cast<uint32_t>(value), number = given == kMinusZero ? 0 : given;
    const uint32_t below = number < kLeastNormal ? (number - kLeast) << 1 : number & (kLeastNormal - 1);
    const bool goes_up = direction == 0 ? below > 0 : direction == 2 && below >= kLeast;
    const uint32_t power = (number >> 23) + uint32_t(goes_up);
    const uint8_t too_large = saturates ? 254 : 255;
    float8e8m0 result;
    result.bits = number > kInfinity ? 255
                  : number < kLeast  ? uint8_t(saturates ? 0 : 255)
                  : power > 254      ? too_large
                                     : uint8_t(power);
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

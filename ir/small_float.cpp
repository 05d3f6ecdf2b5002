// Codes of the small floating types by their formats: sign, exponent, mantissa, with subnormal numbers. float8e8m0 is
// an exponent alone.
#include "ir/small_float.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/base/check.h"

namespace weftc {

namespace {

/// The special values of a format.
enum class Specials : uint8_t {
  Infinities,  // infinities and NaN, with the largest exponent, as in IEEE 754
  AllOnes,     // NaN only: exponent and mantissa of ones
  MinusZero,   // NaN only, in place of -0
  None
};

struct Format {
  int exponent, mantissa, bias;  // bits of exponent and mantissa
  double largest;
  Specials specials;

  int sign_bit() const { return exponent + mantissa; }
  uint8_t not_a_number(bool is_negative) const {
    if (specials == Specials::MinusZero) return static_cast<uint8_t>(1 << sign_bit());
    if (specials == Specials::None) return static_cast<uint8_t>(1 << sign_bit());  // -0, as ml_dtypes has it
    return static_cast<uint8_t>(is_negative << sign_bit() | ((1 << sign_bit()) - 1));
  }
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::F8E4M3FN:
      return {4, 3, 7, 448, Specials::AllOnes};
    case DType::F8E4M3FNUZ:
      return {4, 3, 8, 240, Specials::MinusZero};
    case DType::F8E5M2:
      return {5, 2, 15, 57344, Specials::Infinities};
    case DType::F8E5M2FNUZ:
      return {5, 2, 16, 57344, Specials::MinusZero};
    case DType::F4E2M1:
      return {2, 1, 1, 6, Specials::None};
    case DType::F6E2M3:
      return {2, 3, 1, 7.5, Specials::None};
    case DType::F6E3M2:
      return {3, 2, 3, 28, Specials::None};
    default:
      WEFT_CHECK(false, "no small floating type with a sign");
  }
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kPowerBias = 127;
constexpr uint8_t kLargestPower = 254, kPowerNaN = 255;

/// ONNX leaves negative numbers undefined; they become NaN here.
uint8_t double_to_power(double value, SmallFloatRounding rounding) {
  const uint8_t too_large = rounding.saturates ? kLargestPower : kPowerNaN;
  if (std::isnan(value) || value < 0) return kPowerNaN;
  if (std::isinf(value)) return too_large;
  if (value < std::ldexp(1, -kPowerBias)) return rounding.saturates ? 0 : kPowerNaN;
  int exponent = std::ilogb(value);
  const double over = std::ldexp(value, -exponent);  // 1 <= over < 2
  if (rounding.power == PowerRounding::Up ? over > 1 : rounding.power == PowerRounding::Nearest && over >= 1.5)
    ++exponent;
  return exponent > kPowerBias ? too_large : static_cast<uint8_t>(exponent + kPowerBias);
}

}  // namespace

double small_float_to_double(DType dtype, uint8_t code) {
  if (dtype == DType::F8E8M0) return code == kPowerNaN ? kNaN : std::ldexp(1, code - kPowerBias);
  const Format f = format_of(dtype);
  const int magnitude = code & ((1 << f.sign_bit()) - 1), mantissa = magnitude & ((1 << f.mantissa) - 1);
  const int exponent = magnitude >> f.mantissa;
  const bool is_negative = code >> f.sign_bit() & 1;
  if (f.specials == Specials::MinusZero && is_negative && magnitude == 0) return kNaN;
  if (f.specials == Specials::AllOnes && magnitude == (1 << f.sign_bit()) - 1) return kNaN;
  double value = exponent ? std::ldexp((1 << f.mantissa) + mantissa, exponent - f.bias - f.mantissa)
                          : std::ldexp(mantissa, 1 - f.bias - f.mantissa);
  if (f.specials == Specials::Infinities && exponent == (1 << f.exponent) - 1) value = mantissa ? kNaN : HUGE_VAL;
  return is_negative ? -value : value;
}

uint8_t double_to_small_float(DType dtype, double value, SmallFloatRounding rounding) {
  if (dtype == DType::F8E8M0) return double_to_power(value, rounding);
  const Format f = format_of(dtype);
  const bool is_negative = std::signbit(value);
  if (std::isnan(value)) return f.not_a_number(is_negative);
  double magnitude = std::fabs(value);
  int exponent = magnitude == 0 || std::isinf(magnitude) ? 1 - f.bias : std::max(std::ilogb(magnitude), 1 - f.bias);
  double units = std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent));  // of the last bit
  if (std::ldexp(units, exponent - f.mantissa) > f.largest) {
    if (!rounding.saturates && f.specials == Specials::Infinities)
      return static_cast<uint8_t>(is_negative << f.sign_bit() | ((1 << f.exponent) - 1) << f.mantissa);
    if (!rounding.saturates && f.specials != Specials::None) return f.not_a_number(is_negative);
    exponent = std::ilogb(f.largest), units = std::ldexp(f.largest, f.mantissa - exponent);
  }
  // A carry of the rounding moves into the exponent; subnormal numbers have no leading one.
  const int code = ((exponent + f.bias - 1) << f.mantissa) + static_cast<int>(units);
  if (code == 0 && f.specials == Specials::MinusZero) return 0;
  return static_cast<uint8_t>(is_negative << f.sign_bit() | code);
}

}  // namespace weftc

// Trigonometric and hyperbolic functions and their inverses for emitted kernels. The float ones have no branch, table
// or call, so that loops over them vectorise on every target; the double ones are libm's. On a device all are CUDA's.
//
// A float of any size is reduced to an angle of at most pi/4 and a number of right angles in double precision:
//
//   x = 10  ->  10 * 2/pi = 6.366  ->  6 right angles and 0.366 * pi/2  ->  sin(10) = -sin(0.575)
//
// The error of sine and cosine is below 1.5 units in the last place over all floats. The other functions are within
// 4e-7 of the result. The polynomials are minimax fits (Lawson's algorithm) to the intervals given beside them.
// Coefficients were rounded to float one after another.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "weft/math.h"

namespace weft {

namespace detail {

struct ReducedAngle {
  double exact;           // in [-pi/4, pi/4]
  float angle;            // the same, rounded
  uint32_t right_angles;  // its two lowest bits count
};

/// Reduces `size`, which is not negative. 2/pi is the sum of three numbers, so that products with the first two are
/// exact. A float of at least 2^50 is a multiple of 2^27, and so on. The part of 2/pi that would only add full turns is
/// left out, so that the count of right angles stays below 2^51 (M. Payne and R. Hanek, Radian reduction for
/// trigonometric functions, 1983).
WEFT_HD ReducedAngle reduce_angle(float size) {
  const double x = size;
  const bool above50 = x >= 0x1p50, above76 = x >= 0x1p76, above102 = x >= 0x1p102;
  double high = 0x1.45f306ep-1, middle = -0x1.b1bbeadp-32, low = -0x1.80f62a0b82b2dp-62;
  high = above50 ? -0x1.1b1bbebp-28 : high;
  high = above76 ? -0x1.5ac07b1p-53 : high;
  high = above102 ? -0x1.505c159p-81 : high;
  middle = above50 ? 0x1.4fe13acp-59 : middle;
  middle = above76 ? -0x1.4170566p-83 : middle;
  middle = above102 ? -0x1.911f925p-111 : middle;
  low = above50 ? -0x1.70565911f924fp-91 : low;
  low = above76 ? 0x1.bb81b6c52b328p-113 : low;
  low = above102 ? 0x1.4acc9e21c8210p-143 : low;
  // Adding it leaves the nearest integer in the low bits. The two products are rounded separately: for the largest
  // ones, their sum would have no fraction bits left.
  constexpr double kRound = 0x1.8p52;
  const double first = x * high, shifted = first + kRound, rest = first - (shifted - kRound);
  const double second = x * middle, shifted_rest = (rest + second) + kRound;
  const double part = ((second - (shifted_rest - kRound)) + rest) + x * low;
  const uint64_t count = std::bit_cast<uint64_t>(shifted) + std::bit_cast<uint64_t>(shifted_rest);
  const double exact = part * 0x1.921fb54442d18p+0;
  return {exact, float(exact), uint32_t(count)};
}

/// The sine of the reduced angle. Adding the last term to the rounded angle would give an error of up to 1.54 units.
WEFT_HD float near_sine(const ReducedAngle& part) {
  const float angle = part.angle, z = angle * angle;
  const float last = angle * z * (-0.1666665524f + z * (8.332191035e-3f + z * -1.951860613e-4f));
  return float(part.exact + double(last));
}
WEFT_HD float near_cosine(float angle) {
  const float z = angle * angle;
  return 1 + z * (-0.5f + z * (4.166664556e-2f + z * (-1.388730947e-3f + z * 2.443232734e-5f)));
}

/// `size` with the sign turned where the lowest bit of `turned` is set.
WEFT_HD float with_sign(float size, uint32_t turned) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(size) ^ (turned << 31));
}
WEFT_HD uint32_t sign_of(float x) { return std::bit_cast<uint32_t>(x) >> 31; }

/// The arc sine of `x` in [-1/2, 1/2], of which `z` is the square.
WEFT_HD float near_arc_sine(float x, float z) {
  return x + x * z *
                 (0.1666675359f +
                  z * (7.495252043e-2f + z * (4.547604173e-2f + z * (2.415209264e-2f + z * 4.221179709e-2f))));
}

}  // namespace detail

#if defined(__CUDA_ARCH__)
WEFT_HD float sin(float x) { return ::sinf(x); }
WEFT_HD float cos(float x) { return ::cosf(x); }
WEFT_HD float tan(float x) { return ::tanf(x); }
WEFT_HD float asin(float x) { return ::asinf(x); }
WEFT_HD float acos(float x) { return ::acosf(x); }
WEFT_HD float atan(float x) { return ::atanf(x); }
WEFT_HD float sinh(float x) { return ::sinhf(x); }
WEFT_HD float cosh(float x) { return ::coshf(x); }
WEFT_HD float asinh(float x) { return ::asinhf(x); }
WEFT_HD float acosh(float x) { return ::acoshf(x); }
WEFT_HD float atanh(float x) { return ::atanhf(x); }
#else

WEFT_HD float sin(float x) {
  const detail::ReducedAngle part = detail::reduce_angle(std::fabs(x));
  const float sine = detail::near_sine(part), cosine = detail::near_cosine(part.angle);
  return detail::with_sign(detail::select(part.right_angles & 1, cosine, sine),
                           detail::sign_of(x) ^ (part.right_angles >> 1 & 1));
}

WEFT_HD float cos(float x) {
  const detail::ReducedAngle part = detail::reduce_angle(std::fabs(x));
  const float sine = detail::near_sine(part), cosine = detail::near_cosine(part.angle);
  return detail::with_sign(detail::select(part.right_angles & 1, sine, cosine), (part.right_angles + 1) >> 1 & 1);
}

WEFT_HD float tan(float x) {
  const detail::ReducedAngle part = detail::reduce_angle(std::fabs(x));
  const float sine = detail::near_sine(part), cosine = detail::near_cosine(part.angle);
  const bool is_odd = part.right_angles & 1;
  return detail::with_sign(detail::select(is_odd, cosine, sine) / detail::select(is_odd, sine, cosine),
                           detail::sign_of(x) ^ (part.right_angles & 1));
}

// Beyond 1/2 by the half angle: asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)).
WEFT_HD float asin(float x) {
  const float a = std::fabs(x);
  const bool is_large = a > 0.5f;
  const float z = detail::select(is_large, (1 - a) * 0.5f, a * a);
  const float angle = detail::near_arc_sine(detail::select(is_large, std::sqrt(z), a), z);
  return std::copysign(detail::select(is_large, 1.570796327f - 2 * angle, angle), x);
}

WEFT_HD float acos(float x) {
  const float a = std::fabs(x);
  const bool is_large = a > 0.5f;
  const float z = detail::select(is_large, (1 - a) * 0.5f, a * a);
  const float angle = detail::near_arc_sine(detail::select(is_large, std::sqrt(z), a), z);
  const float large = detail::select(x < 0, 3.141592654f - 2 * angle, 2 * angle);
  return detail::select(is_large, large, 1.570796327f - std::copysign(angle, x));
}

// atan(a) = pi/4 + atan((a - 1) / (a + 1)) = pi/2 + atan(-1 / a); the polynomial is for [-tan(pi/8), tan(pi/8)].
WEFT_HD float atan(float x) {
  const float a = std::fabs(x);
  const bool is_middle = a > 0.414213562f, is_large = a > 2.414213562f;
  const float top = detail::select(is_large, -1.0f, detail::select(is_middle, a - 1, a));
  const float bottom = detail::select(is_large, a, detail::select(is_middle, a + 1, 1.0f));
  const float start = detail::select(is_large, 1.570796327f, detail::select(is_middle, 0.785398163f, 0.0f));
  const float w = top / bottom, z = w * w;
  const float tail = w * z * (-0.3333295584f + z * (0.1997794062f + z * (-0.1387995780f + z * 8.060551435e-2f)));
  return std::copysign(start + (w + tail), x);
}

// Half an exponential function, so that results near the largest float do not overflow; near 0 a polynomial.
WEFT_HD float sinh(float x) {
  const float a = std::fabs(x), z = x * x;
  const float small = a + a * z * (0.1666666716f + z * (8.333310485e-3f + z * (1.984289556e-4f + z * 2.782213187e-6f)));
  const float half = detail::exp_times_power(a, -1);
  return std::copysign(detail::select(a < 1, small, half - 0.25f / half), x);
}

WEFT_HD float cosh(float x) {
  const float half = detail::exp_times_power(std::fabs(x), -1);
  return half + 0.25f / half;
}

// log(x + sqrt(x * x +- 1)), as 1 + y where the result can be small, and as log(2 x) where the square overflows.
WEFT_HD float asinh(float x) {
  const float a = std::fabs(x), z = a * a;
  const float near = log1p(a + z / (1 + std::sqrt(1 + z)));
  return std::copysign(detail::select(a < 0x1p30f, near, log(a) + 0.693147181f), x);
}

WEFT_HD float acosh(float x) {
  const float t = x - 1, near = log1p(t + std::sqrt(t * (t + 2)));
  const float real = detail::select(x > 0x1p30f, log(x) + 0.693147181f, near);
  return detail::select(t < 0, std::numeric_limits<float>::quiet_NaN(), real);
}

WEFT_HD float atanh(float x) {
  const float a = std::fabs(x);
  return std::copysign(0.5f * log1p(2 * a / (1 - a)), x);
}
#endif

WEFT_HD double sin(double x) { return std::sin(x); }
WEFT_HD double cos(double x) { return std::cos(x); }
WEFT_HD double tan(double x) { return std::tan(x); }
WEFT_HD double asin(double x) { return std::asin(x); }
WEFT_HD double acos(double x) { return std::acos(x); }
WEFT_HD double atan(double x) { return std::atan(x); }
WEFT_HD double sinh(double x) { return std::sinh(x); }
WEFT_HD double cosh(double x) { return std::cosh(x); }
WEFT_HD double asinh(double x) { return std::asinh(x); }
WEFT_HD double acosh(double x) { return std::acosh(x); }
WEFT_HD double atanh(double x) { return std::atanh(x); }

}  // namespace weft

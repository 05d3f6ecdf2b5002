// Scalar functions for emitted kernels. The float ones are branch-free polynomials without a call, so that loops over
// them vectorise: error below 4e-7 of the result; infinities, NaN and large arguments give what libm gives. The double
// ones are libm. Compile without -ffast-math, -ffinite-math-only and -fassociative-math: the range reductions depend on
// the order of operations. On a device the float functions are CUDA's.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "weft/numeric.h"

namespace weft {

namespace detail {
/// A choice by bit masks: g++ turns ?: between long expressions into branches, which keeps a loop from vectorising.
WEFT_HD constexpr float select(bool condition, float yes, float no) {
  const uint32_t mask = 0u - uint32_t{condition};
  return std::bit_cast<float>((std::bit_cast<uint32_t>(yes) & mask) | (std::bit_cast<uint32_t>(no) & ~mask));
}
}  // namespace detail

namespace detail {
/// exp(x) = 2^n * (1 + rest), where |rest| is at most about 0.42. The bits of n are those of an integer below zero too.
struct ReducedExp {
  uint32_t n;
  float rest;
};
WEFT_HD ReducedExp reduce_exp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float shifted = x * 1.44269504f + kRound, n = shifted - kRound;
  const float f = (x - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts
  const float q =
      0.4999999344f + f * (0.1666652048f + f * (4.166838990e-2f + f * (8.368735773e-3f + f * 1.381455767e-3f)));
  return {std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound), f + f * f * q};
}

/// 2^n for n from -126 to 127, infinity for 128.
WEFT_HD float power_of_two(uint32_t n) { return std::bit_cast<float>((n + 127) << 23); }

/// exp(x) times 2 to the power of `power`, -1 or 0.
WEFT_HD float exp_times_power(float x, int power) {
  const float low = x < -104.0f ? -104.0f : x, in = low > 90.0f ? 90.0f : low;  // NaN passes both
  const ReducedExp e = reduce_exp(in);
  // Two factors, so that subnormal results and the overflow to infinity come out right.
  const uint32_t i = e.n + uint32_t(256 + power), half = i >> 1;
  return (1 + e.rest) * std::bit_cast<float>((half - 1) << 23) * std::bit_cast<float>((i - half - 1) << 23);
}
}  // namespace detail

WEFT_HD float exp(float x) {
#if defined(__CUDA_ARCH__)
  return ::expf(x);
#else
  return detail::exp_times_power(x, 0);
#endif
}

WEFT_HD float log(float x) {
#if defined(__CUDA_ARCH__)
  return ::logf(x);
#else
  const bool subnormal = x < 0x1p-126f;
  const uint32_t bits = std::bit_cast<uint32_t>(detail::select(subnormal, x * 0x1p23f, x));
  const uint32_t shifted = bits - 0x3f3504f3u;  // so that the mantissa lies in [sqrt(1/2), sqrt(2))
  const float e = float(int32_t(shifted) >> 23) - (subnormal ? 23.0f : 0.0f);
  const float f = std::bit_cast<float>((shifted & 0x7fffffu) + 0x3f3504f3u) - 1;
  const float low = 0.3333331260f + f * (-0.2500000960f + f * (0.2000211873f + f * -0.1666799567f));
  const float high =
      0.1421955091f + f * (-0.1240559142f + f * (0.1188817460f + f * (-0.1167564131f + f * 6.746601332e-2f)));
  const float square = f * f;
  const float tail = f * square * (low + square * square * high) + e * -2.12194440e-4f;
  const float result = e * 0.693359375f + (f + (tail - 0.5f * square));
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const float finite = x == 0 ? -inf : x < 0 ? nan : result;
  return x < inf ? finite : x;  // +inf and NaN return themselves
#endif
}

WEFT_HD float log1p(float x) {
#if defined(__CUDA_ARCH__)
  return ::log1pf(x);
#else
  const float u = 1 + x, lost = x - (u - 1);
  const bool plain = u > 0 && u < std::numeric_limits<float>::infinity();
  return log(u) + detail::select(plain, lost / u, 0.0f);
#endif
}

WEFT_HD float tanh(float x) {
#if defined(__CUDA_ARCH__)
  return ::tanhf(x);
#else
  // exp(2a) - 1 is exact to the last bits near 0 as well, where exp(2a) alone would lose them.
  const float a = std::fabs(x);
  const detail::ReducedExp e = detail::reduce_exp(2 * (a > 10 ? 10.0f : a));  // NaN passes; tanh(10) rounds to 1
  const float power = detail::power_of_two(e.n), less_one = power * e.rest + (power - 1);
  return std::copysign(less_one / (less_one + 2), x);
#endif
}

WEFT_HD float erf(float x) {
#if defined(__CUDA_ARCH__)
  return ::erff(x);
#else
  const float a = std::fabs(x), z = x * x;
  const float small =
      x * (1.128379166f +
           z * (-0.3761262622f +
                z * (0.1128358829f +
                     z * (-2.685391804e-2f + z * (5.188502326e-3f + z * (-8.011576508e-4f + z * 7.858080173e-5f))))));
  const float t = a > 4 ? 4 : a;  // erfc(4) is below half an ulp of 1
  const float power =
      -3.537089288e-4f +
      t * (-1.127040080f +
           t * (-0.6382256024f +
                t * (-0.1030374355f + t * (2.180535115e-2f + t * (-2.939615735e-3f + t * 1.855748932e-4f)))));
  const float large = std::copysign(1 - exp(power), x);
  return detail::select(a < 1, small, large);
#endif
}

WEFT_HD float sigmoid(float x) {
#if defined(__CUDA_ARCH__)
  return 1 / (1 + exp(-x));
#else
  // One power of two does for all results that are not subnormal, which come out as 0. NaN passes both limits.
  const float low = x < -89.0f ? -89.0f : x, in = low > 87.0f ? 87.0f : low;
  const detail::ReducedExp e = detail::reduce_exp(-in);
  const float power = detail::power_of_two(e.n);
  return 1 / (1 + power * (1 + e.rest));
#endif
}
/// Gelu with approximate = "none".
WEFT_HD float gelu_erf(float x) { return 0.5f * x * (1 + erf(x * 0.707106781f)); }
/// Gelu with approximate = "tanh".
WEFT_HD float gelu_tanh(float x) { return 0.5f * x * (1 + tanh(0.797884561f * (x + 0.044715f * x * x * x))); }
/// log(1 + exp(x)).
WEFT_HD float softplus(float x) { return (x < 0 ? 0.0f : x) + log1p(exp(-std::fabs(x))); }

WEFT_HD double exp(double x) { return std::exp(x); }
WEFT_HD double log(double x) { return std::log(x); }
WEFT_HD double log1p(double x) { return std::log1p(x); }
WEFT_HD double tanh(double x) { return std::tanh(x); }
WEFT_HD double erf(double x) { return std::erf(x); }
WEFT_HD double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
WEFT_HD double gelu_erf(double x) { return 0.5 * x * (1 + std::erf(x * 0.70710678118654752)); }
WEFT_HD double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
}
WEFT_HD double softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

// The rest of ONNX's functions of one number, under one name for both types.
template <class T>
WEFT_HD T sqrt(T x) {
  return std::sqrt(x);
}
template <class T>
WEFT_HD T floor(T x) {
  return std::floor(x);
}
template <class T>
WEFT_HD T ceil(T x) {
  return std::ceil(x);
}
/// To the nearest integer, ties to even.
template <class T>
WEFT_HD T round_even(T x) {
  return std::nearbyint(x);
}
template <class T, class E>
WEFT_HD T pow(T x, E exponent) {
  return std::pow(x, T(exponent));
}
template <class T>
WEFT_HD bool is_nan(T x) {
  return x != x;
}
template <class T>
WEFT_HD bool is_inf(T x) {
  return (x < 0 ? -x : x) == std::numeric_limits<T>::infinity();
}

/// `x`, of which the compiler then knows nothing.
template <class T>
T opaque(T x) {
  const volatile T kept = x;
  return kept;
}

/// Absolute value; of the smallest integer it is the integer itself.
template <class T>
WEFT_HD constexpr T abs(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::fabs(x);
  else if constexpr (std::is_unsigned_v<T>)
    return x;
  else
    return x < 0 ? T(0 - std::make_unsigned_t<T>(x)) : x;
}

namespace detail {
template <class T>
WEFT_HD constexpr T nan_or(T x, T other) {
  return x != x ? x : other;
}
WEFT_HD constexpr float nan_or(float x, float other) { return select(x != x, x, other); }
}  // namespace detail

/// As ONNX and NumPy: NaN wins. In two steps, of which the first is one instruction for vectors, and neither a branch.
template <class T>
WEFT_HD constexpr T maximum(T a, T b) {
  return detail::nan_or(a, a > b ? a : b);
}
template <class T>
WEFT_HD constexpr T minimum(T a, T b) {
  return detail::nan_or(a, a < b ? a : b);
}
template <class T>
WEFT_HD constexpr T max(T a, T b) {
  return maximum(a, b);
}
template <class T>
WEFT_HD constexpr T min(T a, T b) {
  return minimum(a, b);
}
template <class T>
WEFT_HD constexpr T clamp(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}

/// ONNX Mod on floats with fmod = 1: the sign of the dividend.
template <class T>
WEFT_HD T fmod(T a, T b) {
  return std::fmod(a, b);
}
/// With fmod = 0: the sign of the divisor.
template <class T>
WEFT_HD T floor_mod(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/// ONNX Div on integers: towards zero. Division by zero gives 0, and the one overflow wraps: neither may stop a
/// program.
template <class T>
WEFT_HD constexpr T int_div(T a, T b) {
  static_assert(std::is_integral_v<T>);
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (b == T(-1)) return T(0 - std::make_unsigned_t<T>(a));
  return T(a / b);
}
/// ONNX Mod with fmod = 1 on integers: the sign of the dividend; 0 where the divisor is 0.
template <class T>
WEFT_HD constexpr T int_rem(T a, T b) {
  static_assert(std::is_integral_v<T>);
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (b == T(-1)) return 0;
  return T(a % b);
}
/// ONNX Mod with fmod = 0: the sign of the divisor.
template <class T>
WEFT_HD constexpr T int_mod(T a, T b) {
  const T r = int_rem(a, b);
  return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
}
/// Wraps; a negative exponent truncates.
template <class T, class E>
WEFT_HD constexpr T int_pow(T base, E exponent) {
  using U = std::make_unsigned_t<T>;
  uint64_t left = uint64_t(exponent);
  if constexpr (std::is_signed_v<E>)
    if (exponent < 0)
      return base == 1 ? 1 : T(base + 1) == 0 && std::is_signed_v<T> ? (exponent % 2 != 0 ? base : T(1)) : 0;
  uint64_t result = 1;
  for (uint64_t power = U(base); left != 0; left >>= 1, power *= power)
    if (left & 1) result *= power;
  return T(result);
}

/// ONNX Pow of an integer base: exact and wrapping for integer exponents, negative ones truncate.
template <class T, class U>
WEFT_HD constexpr T power(T base, U exponent) {
  if constexpr (std::is_floating_point_v<T> || std::is_floating_point_v<U>) {
    return T(std::pow(double(base), double(exponent)));
  } else {
    if (exponent < 0) return base == T(1) ? T(1) : base == T(-1) ? (exponent % 2 ? base : T(1)) : T(0);
    uint64_t result = 1, factor = uint64_t(base);
    for (uint64_t left = uint64_t(exponent); left; left >>= 1, factor *= factor)
      if (left & 1) result *= factor;
    return T(result);
  }
}

/// ONNX Cast. Floats to integers go towards zero; what does not fit 64 bits, and NaN, gives what x86 gives: the
/// smallest 64-bit integer; narrower integers take its low bits.
template <class To, class From>
WEFT_HD To cast(From x) {
  if constexpr (std::is_same_v<From, half> || std::is_same_v<From, bfloat16>) {
    return cast<To>(float(x));
  } else if constexpr (is_small_float<From>) {
    return cast<To>(float(x));
  } else if constexpr (is_small_int<From>) {
    return cast<To>(int8_t(x));
  } else if constexpr (std::is_same_v<To, half> || std::is_same_v<To, bfloat16>) {
    return To(float(x));
  } else if constexpr (is_small_float<To>) {
    return To::rounded(float(x), true, 0);
  } else if constexpr (is_small_int<To>) {
    return To(int(cast<int64_t>(x)));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint64_t>) {
    if (x >= From(0x1p63)) return x >= From(0x1p64) ? UINT64_MAX : uint64_t(x);
    return uint64_t(cast<int64_t>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return To(x >= From(-0x1p63) && x < From(0x1p63) ? int64_t(x) : INT64_MIN);
  } else {
    return To(x);
  }
}

/// ONNX Cast to a float of at most 8 bits, where it does not saturate or does not go up (float8e8m0): `direction` is 0
/// up, 1 down, 2 to nearest.
template <class To, bool kSaturates, int kDirection, class From>
WEFT_HD To rounded_cast(From x) {
  return To::rounded(cast<float>(x), kSaturates, kDirection);
}

/// Quantizing: a float without a fraction, taken into the range of an integer of at most 16 bits. NaN becomes the
/// smallest one.
template <class To>
WEFT_HD To saturate(float x) {
  float low, high;
  if constexpr (is_small_int<To>)
    low = To::kLowest, high = To::kHighest;
  else
    low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
  const float above = x > low ? x : low;
  return To(int32_t(above < high ? above : high));
}

/// ONNX BitShift: bits that are shifted out are lost, also all of them.
template <class T>
WEFT_HD constexpr T shift_left(T x, T bits) {
  return bits < T(8 * sizeof(T)) ? T(x << bits) : T(0);
}
template <class T>
WEFT_HD constexpr T shift_right(T x, T bits) {
  return bits < T(8 * sizeof(T)) ? T(x >> bits) : T(0);
}

/// ONNX BitCast: the bits of `x` as another type. Kernels compute with 16-bit floats as float: kStored says how such an
/// operand is stored (1: half, 2: bfloat16, else as itself). A NaN that went through float has become a quiet one.
template <class To, int64_t kStored, class From>
WEFT_HD To bit_cast(From x) {
  if constexpr (kStored == 1) {
    return bit_cast<To, 0>(half(float(x)).bits);
  } else if constexpr (kStored == 2) {
    return bit_cast<To, 0>(bfloat16(float(x)).bits);
  } else if constexpr (std::is_same_v<To, half> || std::is_same_v<To, bfloat16>) {
    To result;
    result.bits = std::bit_cast<uint16_t>(x);
    return result;
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else {
    return std::bit_cast<To>(x);
  }
}

}  // namespace weft

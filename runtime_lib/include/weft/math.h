// Scalar functions for emitted kernels. The float functions are branch-free polynomials and quotients without a call,
// so that loops over them vectorise. Their error is below 4e-7 of the result unless they state another bound. For
// infinities, NaN and large arguments they agree with libm, except that exp is 0 below 2^-125.5. Each gelu has bounds
// of its own. The double functions are libm's. Compile without -ffast-math, -ffinite-math-only and -fassociative-math:
// the range reductions depend on the order of operations. On a device the float functions are CUDA's.
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
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
[[gnu::weak, gnu::visibility("hidden")]] extern const float kNegativeZero[1];
const float kNegativeZero[1] = {-0.0f};
/// `x`, but not as a constant that g++ can fold: adding -0 changes no number, and the linker decides the value of a
/// weak array. After a choice between a number and a known constant, g++ 12 computes what follows for both and blends
/// by masks. With an unknown number the choice is one vector instruction. g++ moves the addition out of loops.
template <class T>
T unfolded(T x) {
  return x + T(*kNegativeZero);
}
#else
template <class T>
WEFT_HD T unfolded(T x) {
  return x;
}
#endif

/// The larger of x and a constant; NaN where x is. The operands are in the order of the x86 instruction, which returns
/// the second one if either is NaN.
template <class T>
WEFT_HD T at_least(T x, T constant) {
  const T limit = unfolded(constant);
  return limit > x ? limit : x;
}
template <class T>
WEFT_HD T at_most(T x, T constant) {
  const T limit = unfolded(constant);
  return limit < x ? limit : x;
}

inline constexpr float kToNearest = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits

/// 2 to the power of the integer that adding kToNearest + 127 has left in the low bits of `shifted`, from -126 to 127;
/// 0 for -127, infinity for 128.
WEFT_HD float power_of_two(float shifted) { return std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) << 23); }

/// exp(x) times 2 to the power of `power`, -1 or 0: 2^(n - 1) * 2exp(f) with |f| at most about 0.35, of which the first
/// factor does not overflow before the product does. The error is below 1e-7 of the result.
WEFT_HD float exp_times_power(float x, int power) {
  const float in = at_most(at_least(x, -87.336f), 89.0f - 0.7f * float(power));
  const float round = kToNearest + float(126 + power), shifted = in * 1.44269504f + round, n = shifted - round;
  const float f = (in - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts
  const float twice =
      2 + f * (2 + f * (0.9999998808f +
                        f * (0.3333303928f + f * (8.333657682e-2f + f * (1.673778519e-2f + f * 2.763878321e-3f)))));
  return twice * power_of_two(shifted);
}

/// exp(x) for x up to 88, with fewer instructions than exp takes: no limit above, a polynomial of one degree less, and
/// ln 2 as one number where its product is not rounded. The error is below 2e-7 of the result from -16 on, and below
/// 4e-7.
WEFT_HD float short_exp(float x) {
  const float in = at_least(x, -87.336f);
  const float round = kToNearest + 126.0f, shifted = in * 1.44269504f + round, n = shifted - round;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  const float f = in - n * 0.693147181f;
#else
  const float f = (in - n * 0.693359375f) - n * -2.12194440e-4f;
#endif
  const float twice =
      2 + f * (2 + f * (0.9999846220f + f * (0.3333422840f + f * (8.378034085e-2f + f * 1.662503742e-2f))));
  return twice * power_of_two(shifted);
}

/// 2^(x + power) for sums from -127, which gives 0, to 128, which gives infinity. The error is below 2e-7 of the
/// result, and what the last bit of x is worth.
WEFT_HD float two_to(float x, int power) {
  const float round = kToNearest + float(127 + power), shifted = x + round, f = x - (shifted - round);
  const float factor =
      1 +
      f * (0.6931469440f + f * (0.2402223944f + f * (5.550768599e-2f + f * (9.671797976e-3f + f * 1.325691584e-3f))));
  return power_of_two(shifted) * factor;
}

/// Clamps to [-1, 1] a quotient that tends to 1 and -1 for large x, since rounding or growth may exceed that.
WEFT_HD float saturated(float quotient) { return at_most(at_least(quotient, -1.0f), 1.0f); }
}  // namespace detail

WEFT_HD float exp(float x) {
#if defined(__CUDA_ARCH__)
  return ::expf(x);
#else
  return detail::exp_times_power(x, 0);
#endif
}

/// exp of a number that is at most 0, such as the distance of a row's element from the largest; 0 below 2^-125.5.
WEFT_HD float exp_of_negative(float x) {
#if defined(__CUDA_ARCH__)
  return ::expf(x);
#else
  return detail::short_exp(x);
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
  const float z = detail::at_most(x * x, 81.0f);  // tanh(9) rounds to 1
  const float p = x * (1 + z * (0.1338102496f + z * (3.495587364e-3f + z * (2.060907121e-5f + z * 1.335464850e-8f))));
  const float q = 1 + z * (0.4671434055f + z * (2.587697919e-2f + z * (3.285633636e-4f + z * 7.776552493e-7f)));
  return detail::saturated(p / q);
#endif
}

WEFT_HD float erf(float x) {
#if defined(__CUDA_ARCH__)
  return ::erff(x);
#else
  const float z = detail::at_most(x * x, 16.0f);  // erf(4) rounds to 1
  const float p = x * (1.128379140f +
                       z * (0.1935459220f + z * (5.310186320e-2f +
                                                 z * (3.883382540e-3f + z * (2.845670760e-4f + z * 1.986779490e-6f)))));
  const float q = 1 + z * (0.5048581630f +
                           z * (0.1153503590f + z * (1.520732710e-2f + z * (1.185581120e-3f + z * 3.742020730e-5f))));
  return detail::saturated(p / q);
#endif
}

WEFT_HD float sigmoid(float x) { return 1 / (1 + exp(-x)); }

/// Gelu with approximate = "none": x times the share of the normal distribution below it, 1/2 + erf(x / sqrt(2)) / 2,
/// whose second half is one quotient. The error is below 5e-7 of the result above -1, and below 1.2e-6 in absolute
/// terms under -1, where the halves cancel.
WEFT_HD float gelu_erf(float x) {
#if defined(__CUDA_ARCH__)
  return 0.5f * x * (1 + erf(x * 0.707106781f));
#else
  const float limit = 5.18890429f;  // where the halves are alike
  const float above = detail::at_least(x, -limit), in = detail::at_most(above, limit), z = in * in;
  const float p =
      in * (0.398941815f + z * (5.09494729e-2f + z * (5.62223326e-3f + z * (3.29297094e-4f + z * 6.06726871e-6f))));
  const float q =
      1 + z * (0.294372112f + z * (3.81657481e-2f + z * (2.79381522e-3f + z * (1.18031880e-4f + z * 5.16739703e-7f))));
  return above * (0.5f + p / q);
#endif
}

/// Gelu with approximate = "tanh": 0.5 * x * (1 + tanh(u)) is x / (1 + exp(-2u)), in which nothing cancels. The power
/// is one of two: its exponent has few correct bits only where the result is next to 0. It is 0 at the upper limit, and
/// infinity at the lower one. The error is below 1.2e-6 of the result from -4 on.
WEFT_HD float gelu_tanh(float x) {
#if defined(__CUDA_ARCH__)
  return 0.5f * x * (1 + tanh(0.797884561f * (x + 0.044715f * x * x * x)));
#else
  const float in = detail::at_most(detail::at_least(x, -10.06f), 10.02f);
  const float t = in * (-2.302208198f + in * in * -0.1029432396f);
  return x / (1 + detail::two_to(t, 0));
#endif
}

/// log(1 + exp(x)).
WEFT_HD float softplus(float x) { return detail::at_least(x, 0.0f) + log1p(exp(-std::fabs(x))); }

WEFT_HD double exp(double x) { return std::exp(x); }
WEFT_HD double exp_of_negative(double x) { return std::exp(x); }
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

// ONNX's other functions of one number, under one name for both types.
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

/// `x`, hidden from the compiler's constant folding.
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

/// Whether `x`, a float or a double, is a constant that the compiler knows.
template <class T>
[[gnu::always_inline]] WEFT_HD constexpr bool is_constant([[maybe_unused]] T x) {
#if defined(__CUDACC__)  // where one instruction serves both
  return false;
#else
  return !std::is_constant_evaluated() && __builtin_constant_p(x) && x == x;
#endif
}
}  // namespace detail

/// As in ONNX and NumPy: NaN wins. With a constant it is one vector instruction. Otherwise it is two branch-free steps,
/// and the second does not depend on `a`, the operand that reductions carry. Also for g++'s vector types.
template <class T>
[[gnu::always_inline]] WEFT_HD constexpr T maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (detail::is_constant(b)) return detail::at_least(a, b);
    if (detail::is_constant(a)) return detail::at_least(b, a);
  }
  return detail::nan_or(b, b > a ? b : a);
}
/// The functions with which pools combine elements.
struct Largest {
  template <class T>
  [[gnu::always_inline]] constexpr T operator()(T a, T b) const {
    return maximum(a, b);
  }
};
template <class T>
[[gnu::always_inline]] WEFT_HD constexpr T minimum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (detail::is_constant(b)) return detail::at_most(a, b);
    if (detail::is_constant(a)) return detail::at_most(b, a);
  }
  return detail::nan_or(b, b < a ? b : a);
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
/// With fmod = 0: the sign of the divisor, that of a zero too.
template <class T>
WEFT_HD T floor_mod(T a, T b) {
  const T rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(rest, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
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

/// A float towards zero and into the range of an integer; NaN becomes the smallest one. Integers of one or two bytes
/// are given in 32 bits, as wide as the float.
template <class To, class From>
WEFT_HD auto saturate(From x) {
  if constexpr (std::is_integral_v<To> && sizeof(To) > 2) {
    constexpr To kLowest = std::numeric_limits<To>::min(), kHighest = std::numeric_limits<To>::max();
    if (!(x > From(kLowest))) return kLowest;
    return x < From(kHighest) ? To(x) : kHighest;
  } else {
    From low, high;
    if constexpr (is_small_int<To>)
      low = To::kLowest, high = To::kHighest;
    else
      low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    const From limit = detail::unfolded(low), above = x > limit ? x : limit;
    using Result = std::conditional_t<is_small_int<To>, To, int32_t>;
    return Result(int32_t(detail::at_most(above, high)));
  }
}

/// ONNX Pow of an integer base: exact and wrapping for integer exponents, negative ones truncate.
template <class T, class U>
WEFT_HD constexpr T power(T base, U exponent) {
  if constexpr (std::is_floating_point_v<T> || std::is_floating_point_v<U>) {
    const double result = std::pow(double(base), double(exponent));
    if constexpr (std::is_integral_v<T>)
      return T(saturate<T>(result));
    else
      return T(result);
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

/// ONNX BitShift: bits that are shifted out are lost, all of them by a negative number too. To the right copies of the
/// sign follow.
template <class T>
WEFT_HD constexpr T shift_left(T x, T bits) {
  using Bits = std::make_unsigned_t<T>;
  return Bits(bits) < 8 * sizeof(T) ? T(Bits(x) << bits) : T(0);
}
template <class T>
WEFT_HD constexpr T shift_right(T x, T bits) {
  return std::make_unsigned_t<T>(bits) < 8 * sizeof(T) ? T(x >> bits) : T(x < 0 ? -1 : 0);
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

// Element types of emitted programs: the 16-bit floats, and the run-time tag of each C++ element type.
#pragma once
#include <bit>
#include <cstdint>

#include "weft/device_macros.h"
#include "weft/small_types.h"
#include "weft/string.h"

namespace weft {

namespace detail {

/// A choice by a mask: with `?:` here twice in one loop, g++ 12 makes branches and does not vectorise.
WEFT_HD uint32_t choose(bool first, uint32_t a, uint32_t b) { return b ^ ((a ^ b) & (0u - uint32_t{first})); }

/// Branch-free, so that loops over halves vectorise.
WEFT_HD float half_to_float(uint16_t bits) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  const uint32_t sign = uint32_t{bits} >> 15 << 31, rest = bits & 0x7fffu;
  const uint32_t normal = (rest << 13) + 0x38000000u;   // exponent bias 15 -> 127
  const uint32_t special = (rest << 13) | 0x7f800000u;  // inf, nan
  const float subnormal = float(int32_t(rest)) * 0x1p-24f;
  const uint32_t finite = choose(rest < 0x400u, std::bit_cast<uint32_t>(subnormal), normal);
  const uint32_t magnitude = choose(rest >= 0x7c00u, special, finite);
  return std::bit_cast<float>(sign | magnitude);
#endif
}

/// Rounds to nearest, ties to even.
WEFT_HD uint16_t float_to_half(float value) {
#if defined(__CUDA_ARCH__)
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
#else
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 31 << 15, rest = bits & 0x7fffffffu;
  const uint32_t odd = rest >> 13 & 1u;
  const uint32_t normal = (rest - 0x38000000u + 0xfffu + odd) >> 13;
  // Adding 0.5 puts the subnormal half's unit (2^-24) at the last bit of the float's mantissa: the addition rounds.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(rest) + 0.5f) - 0x3f000000u;
  const uint32_t finite = choose(rest < 0x38800000u, subnormal, choose(rest >= 0x477ff000u, 0x7c00u, normal));
  return uint16_t(sign | choose(rest > 0x7f800000u, 0x7e00u, finite));
#endif
}

WEFT_HD uint16_t float_to_bfloat16(float value) {
#if defined(__CUDA_ARCH__)
  uint16_t upper;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(upper) : "f"(value));
  return upper;
#else
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return uint16_t(choose((bits & 0x7fffffffu) > 0x7f800000u, bits >> 16 | 0x40u, rounded));
#endif
}

}  // namespace detail

/// IEEE 754 binary16. Arithmetic happens in float through the conversions.
struct half {
  uint16_t bits;
  half() = default;
  WEFT_COPIED_BY_MEMBER(half)
  WEFT_HD half(float value) : bits(detail::float_to_half(value)) {}
  WEFT_HD operator float() const { return detail::half_to_float(bits); }
};

/// The upper half of a float.
struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  WEFT_COPIED_BY_MEMBER(bfloat16)
  WEFT_HD bfloat16(float value) : bits(detail::float_to_bfloat16(value)) {}
  WEFT_HD operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

enum class DType : uint8_t {
  F32,
  F64,
  F16,
  BF16,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  Bool,
  F8E4M3FN,
  F8E4M3FNUZ,
  F8E5M2,
  F8E5M2FNUZ,
  F8E8M0,
  F4E2M1,
  F6E2M3,
  F6E3M2,
  I4,
  U4,
  I2,
  U2,
  String
};

template <class T>
constexpr DType dtype_of() = delete;
template <>
constexpr DType dtype_of<float>() {
  return DType::F32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::F64;
}
template <>
constexpr DType dtype_of<half>() {
  return DType::F16;
}
template <>
constexpr DType dtype_of<bfloat16>() {
  return DType::BF16;
}
template <>
constexpr DType dtype_of<int8_t>() {
  return DType::I8;
}
template <>
constexpr DType dtype_of<int16_t>() {
  return DType::I16;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::I32;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::I64;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::U8;
}
template <>
constexpr DType dtype_of<uint16_t>() {
  return DType::U16;
}
template <>
constexpr DType dtype_of<uint32_t>() {
  return DType::U32;
}
template <>
constexpr DType dtype_of<uint64_t>() {
  return DType::U64;
}
template <>
constexpr DType dtype_of<bool>() {
  return DType::Bool;
}
template <>
constexpr DType dtype_of<float8e4m3fn>() {
  return DType::F8E4M3FN;
}
template <>
constexpr DType dtype_of<float8e4m3fnuz>() {
  return DType::F8E4M3FNUZ;
}
template <>
constexpr DType dtype_of<float8e5m2>() {
  return DType::F8E5M2;
}
template <>
constexpr DType dtype_of<float8e5m2fnuz>() {
  return DType::F8E5M2FNUZ;
}
template <>
constexpr DType dtype_of<float8e8m0>() {
  return DType::F8E8M0;
}
template <>
constexpr DType dtype_of<float4e2m1>() {
  return DType::F4E2M1;
}
template <>
constexpr DType dtype_of<float6e2m3>() {
  return DType::F6E2M3;
}
template <>
constexpr DType dtype_of<float6e3m2>() {
  return DType::F6E3M2;
}
template <>
constexpr DType dtype_of<signed4>() {
  return DType::I4;
}
template <>
constexpr DType dtype_of<unsigned4>() {
  return DType::U4;
}
template <>
constexpr DType dtype_of<signed2>() {
  return DType::I2;
}
template <>
constexpr DType dtype_of<unsigned2>() {
  return DType::U2;
}
template <>
constexpr DType dtype_of<String>() {
  return DType::String;
}

constexpr int64_t element_bytes(DType dtype) {
  constexpr int64_t kBytes[] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1,
                                1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, sizeof(String)};
  return kBytes[int(dtype)];
}
constexpr const char* dtype_name(DType dtype) {
  constexpr const char* kNames[] = {"f32",        "f64",    "f16",        "bf16",   "i8",     "i16",    "i32",
                                    "i64",        "u8",     "u16",        "u32",    "u64",    "bool",   "f8e4m3fn",
                                    "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "f6e2m3", "f6e3m2",
                                    "i4",         "u4",     "i2",         "u2",     "string"};
  return kNames[int(dtype)];
}

}  // namespace weft

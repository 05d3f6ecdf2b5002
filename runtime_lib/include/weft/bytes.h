// Four 8-bit integers as one element of a contraction: unsigned or signed ones of the first operand, signed ones of the
// second. direct_convolution.h sums their products in 32-bit integers, exactly: with AVX-512's vpdpbusd, where the
// machine has it, else by products of 16-bit integers (pmaddwd), whose sums of two never saturate.
//
// vpdpbusd wants its first operand unsigned. Signed ones are read as unsigned by flipping the sign bit, which adds 128
// to each; sums begin with what that, and a zero point, add too much: -(zero + 128) * (sum of the second operand).
#pragma once
#include <cstdint>

#include "weft/contract.h"

namespace weft {

/// Four elements of the first operand, `Element` each, and whether the machine has vpdpbusd.
template <class Element, bool kHasDotProduct>
struct ByteQuad {
  static constexpr bool kDotProduct = kHasDotProduct;
  uint32_t bits;
} __attribute__((packed, may_alias));

template <class T>
inline constexpr bool is_byte_quad = false;
template <class Element, bool kDotProduct>
inline constexpr bool is_byte_quad<ByteQuad<Element, kDotProduct>> = true;

/// What products of T are summed in.
template <class T>
struct SumOf {
  using Type = T;
};
template <class Element, bool kDotProduct>
struct SumOf<ByteQuad<Element, kDotProduct>> {
  using Type = int32_t;
};

/// Whether vpdpbusd may be used on vectors of 32 bytes as well.
inline bool has_byte_dot_product() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

namespace detail {

/// What is added to an element to make it unsigned.
template <class Element>
inline constexpr int32_t kByteShift = Element(-1) < 0 ? 128 : 0;

/// Four elements as unsigned ones.
template <class Element, bool kDotProduct>
inline uint32_t unsigned_bytes(ByteQuad<Element, kDotProduct> x) {
  return kByteShift<Element> != 0 ? x.bits ^ 0x80808080u : x.bits;
}

typedef int16_t Words __attribute__((vector_size(kVectorBytes), aligned(2), may_alias));

/// Sums of the products of neighbours.
template <class Vector>
[[gnu::always_inline]] inline Vector neighbour_products(Words a, Words b) {
#if defined(__AVX512BW__) && defined(__clang__)
  return (Vector)__builtin_ia32_pmaddwd512(a, b);
#elif defined(__AVX512BW__)
  typedef int Sums __attribute__((vector_size(64)));
  return (Vector)__builtin_ia32_pmaddwd512_mask(a, b, Sums{}, 0xffff);
#elif defined(__AVX2__) && !defined(__AVX512F__)
  return (Vector)__builtin_ia32_pmaddwd256(a, b);
#else
  Vector sums = {};
  for (unsigned i = 0; i < sizeof(Vector) / 4; ++i) sums[i] = a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
  return sums;
#endif
}

/// sum + the products of even and odd bytes, 16 bits wide each.
template <class Vector>
[[gnu::always_inline]] inline Vector add_wide_products(Vector sum, Vector x, Vector w) {
  const Words low = (Words)(x & 0x00ff00ff), high = (Words)((x >> 8) & 0x00ff00ff);
  const Words even = ((Words)w << 8) >> 8, odd = (Words)w >> 8;
  return sum + neighbour_products<Vector>(low, even) + neighbour_products<Vector>(high, odd);
}

/// sum + the products of four unsigned bytes with four signed ones, in each lane.
template <bool kDotProduct, class Vector>
[[gnu::always_inline]] inline Vector add_byte_products(Vector sum, Vector x, Vector w) {
#if defined(__x86_64__) && defined(__AVX__)
  if constexpr (kDotProduct) {
    // As text: the kernel's own architecture may be an older one.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
  }
#endif
  return add_wide_products(sum, x, w);
}

}  // namespace detail

}  // namespace weft

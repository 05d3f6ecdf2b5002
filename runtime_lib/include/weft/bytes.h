// Four 8-bit integers as one element of a contraction: unsigned or signed in the first operand, signed in the second.
// direct_convolution.h sums their products exactly, in 32-bit integers. It uses vpdpbusd of AVX-512 or AVX-VNNI, or
// Arm's sdot, where the machine has it. Otherwise it multiplies 16-bit integers (pmaddwd), whose sums of two never
// saturate, or bytes (Arm's smull).
//
// vpdpbusd needs its first operand unsigned, sdot signed. Operands of the other kind are converted by flipping the sign
// bit, which adds or subtracts 128 (`shift`). To correct for that and for the zero point, sums start from -(zero +
// shift) * (sum of the second operand).
#pragma once
#if defined(__aarch64__)
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdint>

#include "weft/contract.h"

namespace weft {

/// The instruction that sums the products of four bytes. Dot: vpdpbusd in AVX-512's encoding, or sdot. VexDot: vpdpbusd
/// in AVX-VNNI's encoding, for CPUs without AVX-512.
enum class ByteDot : uint8_t { None, Dot, VexDot };

/// Four elements of the first operand, of type `Element`, and the instruction that multiplies them.
template <class Element, ByteDot kInstruction>
struct ByteQuad {
  static constexpr ByteDot kDot = kInstruction;
  uint32_t bits;
} __attribute__((packed, may_alias));

template <class T>
inline constexpr bool is_byte_quad = false;
template <class Element, ByteDot kDot>
inline constexpr bool is_byte_quad<ByteQuad<Element, kDot>> = true;

/// The type in which products of T are summed.
template <class T>
struct SumOf {
  using Type = T;
};
template <class Element, ByteDot kDot>
struct SumOf<ByteQuad<Element, kDot>> {
  using Type = int32_t;
};

/// Whether kernels of this level have variants for VexDot, which needs the vector width of AVX2.
#if defined(__AVX2__) && !defined(__AVX512F__)
inline constexpr bool kMayHaveVexDot = true;
#else
inline constexpr bool kMayHaveVexDot = false;
#endif

inline bool has_avx_vnni() {
#if defined(__x86_64__)
  constexpr unsigned kAvxVnni = 1u << 4;  // clang 14 does not know it by name
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & kAvxVnni) != 0;
#else
  return false;
#endif
}

/// The instruction that the machine has, on vectors of 32 bytes as well.
inline ByteDot byte_dot() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl")) return ByteDot::Dot;
  return kMayHaveVexDot && has_avx_vnni() ? ByteDot::VexDot : ByteDot::None;
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 ? ByteDot::Dot : ByteDot::None;
#else
  return ByteDot::None;
#endif
}

namespace detail {

/// Whether bytes of the first operand are multiplied as signed.
#if defined(__aarch64__)
inline constexpr bool kBytesAreSigned = true;
#else
inline constexpr bool kBytesAreSigned = false;
#endif

/// The shift that is added to an element to make it so.
template <class Element>
inline constexpr int32_t kByteShift = (Element(-1) < 0) == kBytesAreSigned ? 0
                                      : kBytesAreSigned                    ? -128
                                                                           : 128;

/// Forces a vector into a register here, so that g++ does not reorder operations around it.
template <class Vector>
[[gnu::always_inline]] inline void keep_in_register([[maybe_unused]] Vector& x) {
#if defined(__aarch64__)
  asm("" : "+w"(x));
#elif defined(__x86_64__)
  asm("" : "+v"(x));
#endif
}

/// Broadcasts four elements to each lane, with the sign that the instruction needs. Otherwise g++ would flip the sign
/// in a general register, and filling the lanes from there takes longer.
template <class Element, ByteDot kDot>
[[gnu::always_inline]] inline Simd<int32_t>::Vector multiplied_bytes(ByteQuad<Element, kDot> x) {
  Simd<int32_t>::Vector bytes = Simd<int32_t>::Vector{} + int32_t(x.bits);
  keep_in_register(bytes);
  return kByteShift<Element> != 0 ? bytes ^ int32_t(0x80808080u) : bytes;
}

#if defined(__aarch64__)

/// sum + the products of four bytes with four bytes, in each lane.
template <ByteDot kDot>
[[gnu::always_inline]] inline int32x4_t add_byte_products(int32x4_t sum, int32x4_t x, int32x4_t w) {
  if constexpr (kDot == ByteDot::Dot) {
    // As text: the kernel's own architecture may be an older one.
    asm(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(x), "w"(w));
    return sum;
  }
  const int8x16_t a = vreinterpretq_s8_s32(x), b = vreinterpretq_s8_s32(w);
  const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
  sum = vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
  keep_in_register(sum);  // else g++ adds the products of several steps first, which do not fit into registers
  return sum;
}

#else

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
  typedef uint16_t UnsignedWords __attribute__((vector_size(kVectorBytes)));
  const Words low = (Words)(x & 0x00ff00ff), high = (Words)((UnsignedWords)x >> 8);
  const Words even = ((Words)w << 8) >> 8, odd = (Words)w >> 8;
  sum += neighbour_products<Vector>(low, even) + neighbour_products<Vector>(high, odd);
  keep_in_register(sum);  // as above
  return sum;
}

/// sum + the products of four unsigned bytes with four signed ones, in each lane.
template <ByteDot kDot, class Vector>
[[gnu::always_inline]] inline Vector add_byte_products(Vector sum, Vector x, Vector w) {
#if defined(__x86_64__) && defined(__AVX__)
  // As text: the kernel's own architecture may be an older one.
  if constexpr (kDot == ByteDot::Dot) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
  }
  if constexpr (kDot == ByteDot::VexDot) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(w));
    return sum;
  }
#endif
  return add_wide_products(sum, x, w);
}

#endif

}  // namespace detail

}  // namespace weft

// Two bfloat16 as one element of a contraction, neighbours along k of both operands. direct_convolution.h sums their
// products in floats. A CPU with AVX512-BF16 uses vdpbf16ps, which multiplies twice as many numbers at a time as fp32
// instructions. Other CPUs convert each half to float and sum as for floats. Both read the same operands. Their sums
// differ by rounding, and vdpbf16ps flushes denormal numbers to zero.
#pragma once
#include <cstdint>

#include "weft/bytes.h"
#include "weft/level.h"
#include "weft/panels.h"

namespace weft {

/// The even element lies in the lower half. `kHasDotProduct`: whether the CPU has vdpbf16ps.
template <bool kHasDotProduct>
struct BfloatPair {
  static constexpr bool kDotProduct = kHasDotProduct;
  uint32_t bits;
} __attribute__((packed, may_alias));

template <class T>
inline constexpr bool is_bfloat_pair = false;
template <bool kDotProduct>
inline constexpr bool is_bfloat_pair<BfloatPair<kDotProduct>> = true;

template <bool kDotProduct>
struct SumOf<BfloatPair<kDotProduct>> {
  using Type = float;
};

/// Whether kernels for a level may use the instruction that sums the products of two bfloat16. Those for levels below
/// AVX-512 give the results of their level on any CPU.
inline bool has_bfloat_dot_product([[maybe_unused]] Level level = kLevel) {
#if defined(__x86_64__)
  return level == Level::V4 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

namespace detail {

typedef uint32_t PairVector __attribute__((vector_size(kVectorBytes)));
using PairSums = Simd<float>::Vector;

/// Multiplications for one whole element.
template <class T>
inline constexpr int kFactors = 1;
template <>
inline constexpr int kFactors<BfloatPair<false>> = 2;

/// The part of pairs that one instruction multiplies: both elements, or one of them as a float.
template <bool kDotProduct, int kFactor>
[[gnu::always_inline]] inline PairSums pair_factor(PairVector pairs) {
  if constexpr (kDotProduct)
    return PairSums(pairs);
  else
    return PairSums(kFactor == 0 ? pairs << 16 : pairs & 0xffff0000u);
}

/// sum += x * w, or the sum of both products, in each lane.
template <bool kDotProduct>
[[gnu::always_inline]] inline void add_pair_products(PairSums& sum, PairSums x, PairSums w) {
#if defined(__AVX512F__)
  // As text: the kernel's own architecture may be an older one.
  if constexpr (kDotProduct)
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
  else
#endif
    sum += x * w;
}

}  // namespace detail

}  // namespace weft

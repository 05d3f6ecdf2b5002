// The weight of a BlockMatMul (block_matmul.cpp), from numbers, scales and zero points.
#pragma once
#include "ir/ops/record.h"

namespace weftc {

/// A weight [n, k] of numbers of `bits` bits; each column has a scale and a zero point for every `size` steps of k.
struct BlockShape {
  int64_t n = 0, k = 0, size = 0, bits = 0;
};
struct BlockWeight {
  int64_t bits = 0;
  Tensor words;  // u32 [n, blocks, words of a block]
  Tensor terms;  // f32 [n, blocks, 2]: scale, zero point
};

/// a / b rounded up for a >= 0 and b > 0, without overflow.
inline int64_t divided_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }
/// Whether numbers of this many bits fill a byte without a rest.
inline bool fits_bytes(int64_t bits) { return bits == 2 || bits == 4 || bits == 8; }

/// Whether all blocks are complete and consist of whole words. The product keeps a block of a panel in a thread's own
/// memory, so a block has at most 1024 steps.
inline bool fits_block_matmul(const BlockShape& shape) {
  return shape.size > 0 && shape.size <= 1024 && shape.k % shape.size == 0 && shape.size * shape.bits % 32 == 0;
}

/// `from` gives number(n, k), which is not negative, scale(n, block) and zero(n, block).
template <class Numbers>
BlockWeight block_weight(const BlockShape& shape, const Numbers& from) {
  const int64_t blocks = shape.k / shape.size, words = shape.size * shape.bits / 32, each = 32 / shape.bits;
  BlockWeight weight{shape.bits, Tensor(DType::U32, {shape.n, blocks, words}),
                     Tensor(DType::F32, {shape.n, blocks, 2})};
  for (int64_t n = 0; n < shape.n; ++n) {
    for (int64_t w = 0; w < blocks * words; ++w)
      for (int64_t i = 0; i < each; ++i)
        weight.words.integers[static_cast<size_t>(n * blocks * words + w)] |= from.number(n, w * each + i)
                                                                              << (shape.bits * i);
    for (int64_t b = 0; b < blocks; ++b) {
      weight.terms.put(2 * (n * blocks + b), from.scale(n, b));
      weight.terms.put(2 * (n * blocks + b) + 1, from.zero(n, b));
    }
  }
  return weight;
}

/// Whether the weight of a typed MatMulNBits fits.
bool nbits_fits_block_matmul(const OpView& op);
BlockWeight nbits_weight(const OpView& op);

}  // namespace weftc

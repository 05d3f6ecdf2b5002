// Operands of dense contractions in panels of 16 columns: packed in advance, packed on the fly, or widened from 16
// bits. Also the vectors in which a tile reads them.
//
// A packed operand b is [ceil(n / 16)][k][16], zero padded, for every instruction set.
#pragma once
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "weft/kept_panels.h"
#include "weft/numeric.h"

namespace weft {

inline constexpr int64_t kPanel = 16;

constexpr int64_t packed_count(int64_t n, int64_t k) { return (n + kPanel - 1) / kPanel * kPanel * k; }

/// Second operand that is not packed: element (k, n) is data[k * this->k + n * this->n].
template <class T>
struct Unpacked {
  const T* data;
  int64_t n, k;
};

namespace detail {

// Sums of a tile. NEON's instructions have no operands in memory: 8 vectors of columns leave room for 16 sums.
#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64, kTileVectors = 24, kTileVectorsOfDoubles = 24;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32, kTileVectors = 12, kTileVectorsOfDoubles = 12;
#elif defined(__aarch64__)
inline constexpr int kVectorBytes = 16, kTileVectors = 24, kTileVectorsOfDoubles = 16;
#else
inline constexpr int kVectorBytes = 16, kTileVectors = 12, kTileVectorsOfDoubles = 12;
#endif

template <class T>
struct Simd {
  static constexpr int kLanes = kVectorBytes / int(sizeof(T));
  typedef T Vector __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
  static constexpr int kPanelVectors = int(kPanel) / kLanes;
  static constexpr int kPanels = kPanelVectors == 1 ? 2 : 1;  // panels of one tile
  static constexpr int kSums = sizeof(T) == 8 ? kTileVectorsOfDoubles : kTileVectors;
  static constexpr int kRows = std::max(1, kSums / (kPanelVectors * kPanels));  // rows of one tile
};

#if defined(__AVX2__) && defined(__F16C__)
typedef float EightFloats __attribute__((vector_size(32)));
typedef int EightWords __attribute__((vector_size(32)));
typedef short EightShorts __attribute__((vector_size(16)));
typedef short ShortsInMemory __attribute__((vector_size(16), aligned(2), may_alias));

/// One or two instructions for eight elements, which g++ 12 does not find by itself.
[[gnu::always_inline]] inline EightFloats eight_floats_at(const bfloat16* at) {
  const EightShorts shorts = *reinterpret_cast<const ShortsInMemory*>(at);
#if defined(__clang__)
  typedef uint16_t Unsigned __attribute__((vector_size(16)));
  return EightFloats(__builtin_convertvector(Unsigned(shorts), EightWords) << 16);
#else
  return EightFloats(EightWords(__builtin_ia32_pmovzxwd256(shorts)) << 16);
#endif
}
[[gnu::always_inline]] inline EightFloats eight_floats_at(const half* at) {
  const EightShorts shorts = *reinterpret_cast<const ShortsInMemory*>(at);
  return __builtin_ia32_vcvtph2ps256(shorts);
}
#elif defined(__aarch64__)
/// An instruction for four elements, which g++ 12 does not find by itself either.
[[gnu::always_inline]] inline float32x4_t four_floats_at(const bfloat16* at) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(&at->bits), 16));
}
[[gnu::always_inline]] inline float32x4_t four_floats_at(const half* at) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&at->bits)));
}
#endif

/// Neighbouring elements of a panel, as floats where they are stored in 16 bits.
template <class Vector, class W>
[[gnu::always_inline]] inline Vector columns_at(const W* at) {
  if constexpr (sizeof(W) > 2) {
    return *reinterpret_cast<const Vector*>(at);
  } else {
#if defined(__AVX512F__)
    return __builtin_shufflevector(eight_floats_at(at), eight_floats_at(at + 8), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
                                   12, 13, 14, 15);
#elif defined(__AVX2__) && defined(__F16C__)
    return eight_floats_at(at);
#elif defined(__aarch64__)
    return four_floats_at(at);
#else
    Vector floats;
    for (size_t j = 0; j < sizeof(Vector) / sizeof(float); ++j) floats[j] = float(at[j]);
    return floats;
#endif
  }
}

/// A packed second operand, k steps at a time: their address, and the distance of the next panel.
template <class W>
struct PackedPanels {
  const W* data;
  int64_t k;  // steps of a panel, not of the product
  const W* at(int64_t n, int64_t k0, int64_t, int64_t) const { return data + n * k + k0 * kPanel; }
  int64_t panel_stride(int64_t) const { return k * kPanel; }
};

/// The most steps of k for a single block, and the steps of a block if there are more.
inline constexpr int64_t kWholeK = 1024, kBlockK = 384;

/// Four steps of four columns of a transposed operand (unit stride along k) into a panel.
inline void transpose_block(const float* from, int64_t column, float* out) {
  typedef float Quad __attribute__((vector_size(16), aligned(4), may_alias));
  const auto load = [&](int64_t j) { return *reinterpret_cast<const Quad*>(from + j * column); };
  const Quad a = load(0), b = load(1), c = load(2), d = load(3);
  const Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Quad AB = __builtin_shufflevector(a, b, 2, 6, 3, 7), CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const auto store = [&](int64_t i, Quad x) { *reinterpret_cast<Quad*>(out + i * kPanel) = x; };
  store(0, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
  store(1, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
  store(2, __builtin_shufflevector(AB, CD, 0, 1, 4, 5));
  store(3, __builtin_shufflevector(AB, CD, 2, 3, 6, 7));
}

/// Packs columns n .. of a strided operand into one panel; missing columns are zero.
template <class T>
inline void pack_panel(const Unpacked<T>& b, int64_t n, int64_t columns, int64_t k0, int64_t k, T* out) {
  const T* from = b.data + k0 * b.k + n * b.n;
  if (columns == kPanel && b.n == 1) {
    for (int64_t i = 0; i < k; ++i, from += b.k, out += kPanel)
      for (int64_t j = 0; j < kPanel; ++j) out[j] = from[j];
    return;
  }
  int64_t done = 0;  // steps
  if constexpr (std::is_same_v<T, float>)
    if (columns == kPanel && b.k == 1)
      for (; done + 4 <= k; done += 4)
        for (int64_t j = 0; j < kPanel; j += 4) transpose_block(from + j * b.n + done, b.n, out + done * kPanel + j);
  for (int64_t j = 0; j < kPanel; ++j)
    for (int64_t i = done; i < k; ++i) out[i * kPanel + j] = j < columns ? from[i * b.k + j * b.n] : T(0);
}

/// A strided second operand: the requested k steps are packed into scratch memory on the stack of the thread.
template <class T>
struct PackingPanels {
  Unpacked<T> b;
  int64_t n_end;
  T* scratch;
  const T* at(int64_t n, int64_t k0, int64_t k, int64_t panels) const {
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t first = n + p * kPanel;
      pack_panel(b, first, std::clamp<int64_t>(n_end - first, 0, kPanel), k0, k, scratch + p * k * kPanel);
    }
    return scratch;
  }
  int64_t panel_stride(int64_t k) const { return k * kPanel; }
};

/// A packed second operand in 16 bits: the requested k steps are widened into scratch memory on the stack of the
/// thread, which all rows of a block read.
template <class T, class W>
struct WidenedPanels {
  PackedPanels<W> stored;
  T* scratch;
  const T* at(int64_t n, int64_t k0, int64_t k, int64_t panels) const {
    using Vector = typename Simd<T>::Vector;
    for (int64_t p = 0; p < panels; ++p) {
      const W* from = stored.at(n + p * kPanel, k0, k, 1);
      T* out = scratch + p * k * kPanel;
      for (int64_t i = 0; i < k * kPanel; i += Simd<T>::kLanes)
        *reinterpret_cast<Vector*>(out + i) = columns_at<Vector>(from + i);
    }
    return scratch;
  }
  int64_t panel_stride(int64_t k) const { return k * kPanel; }
};

/// Elements of the scratch memory of a thread for P panels.
template <class T>
inline constexpr int64_t kScratch = Simd<T>::kPanels* kPanel* kWholeK;

/// Calls run(panels) with the packed operand as numbers of type T.
template <class T, class W, class Run>
inline void with_numbers(const PackedPanels<W>& stored, const Run& run) {
  if constexpr (std::is_same_v<T, W>) {
    run(stored);
  } else {
    alignas(64) T scratch[kScratch<T>];
    run(WidenedPanels<T, W>{stored, scratch});
  }
}

}  // namespace detail

/// Packs b (k x n, strides as given) into panels. The compiler does the same to constants.
template <class T>
void pack_panels(const Unpacked<T>& b, int64_t n, int64_t k, T* out) {
  for (int64_t first = 0; first < n; first += kPanel, out += k * kPanel)
    detail::pack_panel(b, first, std::min(kPanel, n - first), 0, k, out);
}

/// The panels of b, packed now unless b is the matrix that was packed last. It must not have changed since.
template <class T>
const T* keep_panels(KeptPanels& kept, const Unpacked<T>& b, int64_t n, int64_t k) {
  T* panels = reinterpret_cast<T*>(kept.memory.get());
  if (kept.packed != b.data) pack_panels(b, n, k, panels), kept.packed = b.data;
  return panels;
}

}  // namespace weft

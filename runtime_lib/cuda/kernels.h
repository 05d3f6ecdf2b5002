// The runtime's own kernels: functions that launch each on a stream.
#pragma once
#include "collectives.h"
#include "toolkit.h"
#include "weft/cuda.h"

namespace weft {

/// The sources of a reduction: the same box at each address, in this order.
struct Sources {
  const void* at[kMaxPeers];
  int count = 0;
};

/// Copies a strided box of elements of 1, 2, 4 or 8 bytes.
void copy_box(cudaStream_t stream, const Box& box, int64_t element, const void* src, void* dst);
/// dst = reduction over the sources, in float for half and bfloat16. dst may be a source with the same layout.
void reduce_box(cudaStream_t stream, const Box& box, ReduceOp op, DType dtype, const Sources& sources, void* dst);

/// The words that kernels read in device memory.
struct IterationWords {
  uint32_t epoch, invocation;
};
void store_words(cudaStream_t stream, IterationWords* words, IterationWords values);
/// Stores up to 8 bytes.
void store_value(cudaStream_t stream, void* at, uint64_t bits, int bytes);
/// Writes to host memory which point the stream has reached.
void mark_progress(cudaStream_t stream, uint32_t* progress, uint32_t value);

/// The kinds of numbers that --check-nan distinguishes.
enum class NumberKind : uint8_t { NaN, Infinity };
constexpr int kNumberKinds = 2;

/// The first number of each kind that checks on this device have found.
struct NotFiniteFound {
  using Word = unsigned long long;  // as atomicMin has it
  static constexpr Word kNone = ~Word(0);
  static constexpr int kElementBits = 40;
  Word place[kNumberKinds];  // the number of the check, then the element
  Word ns[kNumberKinds];     // when, by the clock of the device
  int64_t check(int kind) const { return int64_t(place[kind] >> kElementBits); }
  int64_t element(int kind) const { return int64_t(place[kind] & ((Word(1) << kElementBits) - 1)); }
};
/// Which of 32 elements in a row are not finite, and a hash of their bits.
struct NotFiniteMark {
  uint32_t elements, hash;
};
constexpr int64_t marks_of(int64_t count) { return (count + 31) / 32; }
/// Writes the marks_of(count) marks of elements whose type is_real.
void mark_not_finite(cudaStream_t stream, DType dtype, const void* at, int64_t count, NotFiniteMark* marks);
/// Notes, as check number `check`, the non-finite elements whose marks have changed.
void find_not_finite(cudaStream_t stream, DType dtype, const void* at, int64_t count, const NotFiniteMark* marks,
                     uint32_t check, NotFiniteFound* found);

void signal_flags(cudaStream_t stream, const Peers& peers, const Signal& signal, int i);
void wait_for_flags(cudaStream_t stream, const Peers& peers, const Signal& signal, int i);
void peer_barrier(cudaStream_t stream, const Peers& peers);

/// y = epilogue(y + bias), for epilogues that no library supports.
void apply_epilogue(cudaStream_t stream, const Contraction& c, DType dtype, const void* bias, void* y);
/// The whole contraction, one thread for each element: slow, but it needs no library.
void contract_plainly(cudaStream_t stream, const Contraction& c, DType dtype, const void* a, const void* b,
                      const void* bias, void* y);

}  // namespace weft

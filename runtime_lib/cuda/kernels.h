// The runtime's own kernels, each behind a function that launches it on a stream.
#pragma once
#include "collectives.h"
#include "toolkit.h"
#include "weft/cuda.h"

namespace weft {

/// Where a reduction reads: the same box at each address, in this order.
struct Sources {
  const void* at[kMaxPeers];
  int count = 0;
};

/// Copies a strided box of elements of 1, 2, 4 or 8 bytes.
void copy_box(cudaStream_t stream, const Box& box, int64_t element, const void* src, void* dst);
/// dst = reduction over the sources, in float for half and bfloat16. dst may be a source that lies as dst does.
void reduce_box(cudaStream_t stream, const Box& box, ReduceOp op, DType dtype, const Sources& sources, void* dst);

/// The words that kernels read in device memory.
struct IterationWords {
  uint32_t epoch, invocation;
};
void store_words(cudaStream_t stream, IterationWords* words, IterationWords values);
/// Stores up to 8 bytes.
void store_value(cudaStream_t stream, void* at, uint64_t bits, int bytes);
/// Says in host memory what the stream has come to.
void mark_progress(cudaStream_t stream, uint32_t* progress, uint32_t value);

void signal_flags(cudaStream_t stream, const Peers& peers, const Signal& signal, int i);
void wait_for_flags(cudaStream_t stream, const Peers& peers, const Signal& signal, int i);
void peer_barrier(cudaStream_t stream, const Peers& peers);

/// y = epilogue(y + bias), or of 0 where nothing was summed: what no library does.
void apply_epilogue(cudaStream_t stream, const Contraction& c, DType dtype, const void* bias, void* y, bool is_empty);

}  // namespace weft

// The strided copies and reductions that collectives and transfers use.
#pragma once
#include "weft/types.h"

namespace weft {

/// A strided box, innermost dimension last. Neighbouring dimensions are merged where both sides allow it.
struct Box {
  int ndim = 0;
  Dim dims[kMaxDims] = {};

  explicit Box(const Dim (&dims)[kMaxDims]);
  int64_t count() const;
};

/// Elements that are enough work for a thread.
inline constexpr int64_t kGrain = 16384;

/// Copies elements begin .. end (in row-major order of the box) of `element` bytes each.
void copy_box(const Box& box, int64_t element, const char* src, char* dst, int64_t begin, int64_t end);

/// dst = reduction over sources 0 .. n, in this order, for elements begin .. end of the box. dst may be one of the
/// sources.
void reduce_box(const Box& box, ReduceOp op, DType dtype, const char* const* sources, int n, char* dst, int64_t begin,
                int64_t end);

/// Copies the box of one message between the sender's window part and the receiver's buffer.
void copy_message(const Message& message, int64_t element, const char* src, char* dst);

}  // namespace weft

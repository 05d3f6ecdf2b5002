// Rows out of cache. A kernel that passes over a row several times computes while memory waits, and what a CPU fetches
// ahead by itself stops where the row ends. While one pass computes, it asks for the row that comes next; the last one
// stores past the caches what these would not hold until it is read, since a plain store reads the line first
// (LayerNormalization and Softmax of 4096 x 4096 elements take 20 to 25 % less time than with plain stores on Zen 5).
// So do kernels of one pass, and loops over elements: a Relu of as many takes 25 to 30 % less time, and so does a Gelu,
// but on idle memory, where with AVX2 one thread waits for its arithmetic, 10 to 15 % more.
//
//   for row:                                          for row:
//     sum of x[row, c]                                  sum of x[row, c]
//     for c: y[row, c] = ...                   ->       for c_part: ask for x[row + 1, c_part ...]
//                                                                   store y[row, c_part ...] = ... past the caches
#pragma once
#include "backend/kernel_context.h"

namespace weftc {

/// Does both in loops over rows of operands that no cache holds, and the second in loops over all elements. What lies
/// behind the last row is asked for too, which does nothing. Call this when sums are in parts.
void stream_rows(KernelContext& context, Statements& statements);

}  // namespace weftc

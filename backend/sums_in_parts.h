// Cuts loops that add up and store into parts. A vector of sums has to wait for each addition before the next one. The
// sums of different parts do not wait for each other, and between parts the next row can be prefetched (stream_rows.h).
//
//   #pragma omp simd reduction(+ : sum)              for (int64_t c_part = 0; c_part < 4096; c_part += 512) {
//   for (int64_t c = 0; c < 4096; ++c) {      ->     #pragma omp simd reduction(+ : sum)
//     sum += y[c] = exp(x[c]);                         for (int64_t c = c_part; c < c_part + 512; ++c) {
//   }                                                    sum += y[c] = exp(x[c]);
#pragma once
#include "backend/statement.h"

namespace weftc {

/// Cuts each vector loop over very many elements that adds up and stores.
void add_in_parts(Statements& statements);

/// The value of an expression that is a number; 0 for any other.
int64_t number_of(const Expr& expr);
/// The largest number of whole vectors that divides `count`, is at most `most`, and at least half of it. Work between
/// parts then stays small. 0 without such a number, or if one part would be all.
int64_t equal_part(int64_t count, int64_t most);
/// The loop in parts of `part` elements, which must divide its bound.
For in_parts(For loop, int64_t part);

}  // namespace weftc

// Loops that only look for the largest or smallest element of a row become calls of weft/row_extremes.h, which has
// several vectors of results under way (a Softmax of 128 elements a row takes 55 % less time with AVX-512 on Zen 5).
//
//   float max = -infinity;
//   #pragma omp simd reduction(weft_maximum : max)
//   for (int64_t c = 0; c < 768; ++c) {                 ->   const float max = weft::maximum_of<float>(768, [&](int64_t
//   c) {
//     max = weft::maximum(max, x[c]);                          return x[c];
//   }                                                        });
#pragma once
#include "backend/statement.h"

namespace weftc {

/// Replaces each vector loop that stores nothing and has all of its accumulator's row, which is declared beside it.
/// Rows of a few elements stay loops.
void call_for_extremes(Statements& statements);

}  // namespace weftc

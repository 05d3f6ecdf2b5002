// Sums down the columns of a matrix. One column at a time reads one element of each cache line, so that several columns
// go together:
//
//   for row < 96:                                     #pragma omp simd
//     float sum = 0;                                  for row < 96:
//     #pragma omp simd reduction(+ : sum)      ->       float sum = 0;
//     for c < 3136: sum += x[c * 96 + row];             for c < 3136: sum += x[c * 96 + row];
#pragma once
#include "backend/statement.h"

namespace weftc {

/// Does so wherever a loop has one loop inside, neighbours of the outer one are neighbours in memory, and those of the
/// inner one are not.
void take_columns_together(Statements& nest);

}  // namespace weftc

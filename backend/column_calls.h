// Loops that take several results at once and add up a column for each become calls of weft/column_sums.h, which keeps
// sums of parts (a mean over 3136 rows of 96 columns takes half the time with AVX2).
//
//   #pragma omp simd                                   const auto sum_term = [&](int64_t row, int64_t c) {
//   for (int64_t row = begin; row < end; ++row) {        return x[c * 96 + row];
//     float sum = 0;                                   };
//     for (int64_t c = 0; c < 3136; ++c) {       ->    weft::sum_columns<float>(begin, end, 3136, sum_term,
//       sum += x[c * 96 + row];                                                 [&](int64_t row, float sum) {
//     }                                                  y[row] = sum * 0.5f;
//     y[row] = sum * 0.5f;                             });
//   }
#pragma once
#include "backend/statement.h"
#include "ir/base/naming.h"

namespace weftc {

/// Replaces each such loop whose columns are one loop inside it. True if it replaced any. `names` are the kernel's
/// names.
bool call_for_columns(const Names& names, Statements& statements);

}  // namespace weftc

// Sums of very many floats lose digits in one accumulator: the error grows with the number of elements. Sums of an
// inner loop are added in double; without an inner loop, the elements are.
//
//   float sum = 0;                                     double sum_total = 0;
//   for (int64_t c = 0; c < 300; ++c) {                for (int64_t c = 0; c < 300; ++c) {
//     #pragma omp simd reduction(+ : sum)                float sum_part = 0;
//     for (int64_t c2 = 0; c2 < 49; ++c2) {      ->      #pragma omp simd reduction(+ : sum_part)
//       sum += x[c * 49 + c2];                           for (int64_t c2 = 0; c2 < 49; ++c2) {
//     }                                                    sum_part += x[c * 49 + c2];
//   }                                                    }
//                                                        sum_total += sum_part;
//                                                      }
//                                                      const float sum = float(sum_total);
#pragma once
#include "backend/statement.h"
#include "ir/base/naming.h"

namespace weftc {

/// Widens each sum of floats with so many sequential additions that it would lose digits. `names` are the kernel's;
/// with vectors, a loop may have a sum for each lane of one.
void widen_long_sums(const Names& names, bool has_vectors, Statements& statements);

/// The kernel's names, and the names that its statements declare.
Names names_in(Names names, const Statements& statements);

}  // namespace weftc

// Tells whether kernels of a schedule's program give the same bits as those of one rank's program. They do if every
// kernel computes together the same ops as a kernel of one rank. Inside a kernel the C++ compiler contracts a product
// and the sum that follows it to one rounding, and 16-bit values are kept as 32 bits. Neither the slices of operands
// nor the number of elements matters: the order of a sum follows from its operands alone.
//
//   one rank  y = a*b + c         in one kernel, rounded once    the same kernel on slices: the same bits
//   ranks     t = a*b; y = t + c  in two kernels, rounded twice  other bits
#pragma once
#include <string>

#include "ir/plan.h"

namespace weftc {

/// Why the bits may differ although no reduction is cut by ranks or chunks: "'far' computes other ops together than a
/// kernel of one rank". Empty where the bits are equal. `one_rank` is the Plan of the same model on one rank.
std::string why_bits_differ(const Plan& plan, const Plan& one_rank);

}  // namespace weftc

// True if kernels of a schedule's program give the bits that those of one rank's program give. They do where every
// kernel computes together what a kernel of one rank computes together: inside a kernel the C++ compiler joins a
// product and the sum behind it to one rounding, and 16-bit values are kept as 32 bits. How operands are sliced and how
// many elements a kernel computes makes no difference: sums are taken in an order that follows from what is summed
// alone.
//
//   one rank  y = a*b + c         in one kernel, rounded once    the same kernel on slices: the same bits
//   ranks     t = a*b; y = t + c  in two kernels, rounded twice  other bits
#pragma once
#include <string>

#include "ir/plan.h"

namespace weftc {

/// Why the bits may differ although no reduction is cut by ranks or chunks: "'far' computes other ops together than a
/// kernel of one rank". Empty where they are equal. `one_rank` is the Plan of the same model on one rank.
std::string why_bits_differ(const Plan& plan, const Plan& one_rank);

}  // namespace weftc

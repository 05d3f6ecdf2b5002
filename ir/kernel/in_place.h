// Whether a result of a kernel may share the memory of one of its operands.
//
//   m_next[i] = m[i] + (g[i] - m[i]) * 0.1        may: element i is read by who writes it, before it is written
//   y[i] = m[i] + m[i + 1]                        may not: element i + 1 may be written already, or not yet
//   present[t] = t < past_count ? past[t] : k     may: rows of the past are read where they are written
//   p[r, c] = x[r, c] / sum over c of x[r, c]     may: a row is summed before its elements are written
#pragma once
#include "ir/kernel/kernel_body.h"

namespace weftc {

/// Whether every read of parameter `operand` happens while the element of output `output` at the same position is
/// computed, so that both may share memory. It depends on the body and on the kernel's strategies, which fix the order
/// of elements. False for strategies that read an element more than once or elsewhere.
bool updates_in_place(const KernelBody& body, size_t operand, size_t output);

/// The dimension along which output 0 is operand `operand` with appended rows, if the kernel does nothing else. That is
/// a Concat whose first part is the operand, with a run-time length.
std::optional<size_t> appended_axis(const KernelBody& body, size_t operand);

}  // namespace weftc

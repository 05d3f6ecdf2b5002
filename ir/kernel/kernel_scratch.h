// Memory that a kernel of the host takes while it runs, beyond its operands and results (weft/scratch.h).
#pragma once
#include <cstdint>

#include "ir/plan.h"

namespace weftc {

/// Bytes that one thread takes at most in a launch of the kernel. Parts of bounded size, such as tiles for the caches,
/// are left out. 0 for a device.
int64_t scratch_bytes(const Plan& plan, const Kernel& kernel);
/// The most that a kernel of the program takes; a thread runs one at a time, and keeps the memory for the next.
int64_t scratch_bytes(const Plan& plan, const Program& program);
/// All memory of a rank of the program: what limits of memory count.
int64_t needed_bytes(const Plan& plan, const Program& program);

}  // namespace weftc

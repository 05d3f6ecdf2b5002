// Scheduling of a core between the threads of a rank.
#pragma once

namespace weft {

/// For the calling thread, which mostly waits: requests short time slices, so that it runs soon after it wakes even if
/// another thread computes. Kernels before Linux 6.12 ignore this.
void take_short_turns();

}  // namespace weft

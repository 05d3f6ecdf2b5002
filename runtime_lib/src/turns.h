// How the kernel shares a core between the threads of a rank.
#pragma once

namespace weft {

/// For the calling thread, which mostly waits: it asks for short turns, and runs soon after it wakes even where another
/// thread computes. A kernel that knows no such wish (before Linux 6.12) goes on as it did.
void take_short_turns();

}  // namespace weft

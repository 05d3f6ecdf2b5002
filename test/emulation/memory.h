// Device and pinned memory: poisoned at first, with red zones around it.
#pragma once
#include <cstddef>

namespace weft::emulation {

/// Aborts if something has written beside an allocation. (The address sanitizer sees that at once.)
void check_red_zones(const char* after);

enum class Memory { Unknown, Device, Pinned, Registered };
Memory kind_of(const void* at);

}  // namespace weft::emulation

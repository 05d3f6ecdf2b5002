// Fibers: stacks that one OS thread switches between.
#pragma once
#include <cstddef>

#include "sanitizers.h"

namespace weft::emulation {

inline constexpr size_t kStackBytes = kAddressSanitizer || kThreadSanitizer ? 128 * 1024 : 64 * 1024;

struct Fiber {
  void* state = nullptr;        // saved stack pointer, or a ucontext_t
  const void* stack = nullptr;  // lowest byte; of an OS thread only known to the address sanitizer
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;  // the address sanitizer's
};

/// Makes `fiber` start at `entry` on this stack. `entry` never returns: it ends with switch_fiber(..., true).
void prepare_fiber(Fiber& fiber, char* stack, void (*entry)());
/// Leaves `from` and goes on in `to`; returns when somebody switches back, unless `ends`.
void switch_fiber(Fiber& from, Fiber& to, bool ends = false);
/// To be called first in an entry: `from` is the fiber that switched here.
void fiber_started(Fiber& from);

/// A stack of kStackBytes: its lowest byte. Touching what lies below it ends the process.
char* new_stack();
void free_stack(char* stack);

}  // namespace weft::emulation

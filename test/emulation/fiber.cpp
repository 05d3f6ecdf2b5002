#include "fiber.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if !defined(__x86_64__) || defined(WEFT_EMULATION_UCONTEXT)
#define WEFT_UCONTEXT 1
#include <ucontext.h>
#endif

namespace weft::emulation {

#if defined(WEFT_UCONTEXT)

void prepare_fiber(Fiber& fiber, char* stack, void (*entry)()) {
  if (fiber.state == nullptr) fiber.state = new ucontext_t;
  ucontext_t* context = static_cast<ucontext_t*>(fiber.state);
  getcontext(context);
  context->uc_stack = {.ss_sp = stack, .ss_flags = 0, .ss_size = kStackBytes};
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  fiber.stack = stack, fiber.stack_bytes = kStackBytes, fiber.fake_stack = nullptr;
}

static void switch_stacks(Fiber& from, Fiber& to) {
  if (from.state == nullptr) from.state = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(from.state), static_cast<ucontext_t*>(to.state));
}

#else

// Saves the registers that a call must keep, and changes the stack. The floating-point modes are the same everywhere.
extern "C" void weft_emulation_switch(void** from, void* to);
asm(R"(
.text
.p2align 4
.globl weft_emulation_switch
.type weft_emulation_switch, @function
weft_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size weft_emulation_switch, .-weft_emulation_switch
)");

void prepare_fiber(Fiber& fiber, char* stack, void (*entry)()) {
  // Six registers, the entry as return address, and 0 where a debugger looks for the caller. At the entry the stack is
  // 8 bytes off a multiple of 16, as after a call. Stacks start at different cache lines, or all would share a few.
  const size_t colour = (reinterpret_cast<uintptr_t>(stack) / kStackBytes % 16) * 128;
  void** top = reinterpret_cast<void**>(stack + kStackBytes - 56 - colour);
  top[0] = nullptr;
  top[-1] = reinterpret_cast<void*>(entry);
  for (int i = 2; i <= 7; ++i) top[-i] = nullptr;
  fiber.state = top - 7;
  fiber.stack = stack, fiber.stack_bytes = kStackBytes, fiber.fake_stack = nullptr;
}

static void switch_stacks(Fiber& from, Fiber& to) { weft_emulation_switch(&from.state, to.state); }

#endif

void switch_fiber(Fiber& from, Fiber& to, [[maybe_unused]] bool ends) {
#if defined(WEFT_EMULATION_ASAN)
  __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake_stack, to.stack, to.stack_bytes);
#endif
  switch_stacks(from, to);
#if defined(WEFT_EMULATION_ASAN)
  const void* stack;
  size_t bytes;
  __sanitizer_finish_switch_fiber(from.fake_stack, &stack, &bytes);
#endif
}

void fiber_started([[maybe_unused]] Fiber& from) {
#if defined(WEFT_EMULATION_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &from.stack, &from.stack_bytes);
#endif
}

// Below a stack lie pages that nothing may touch, more of them than a frame of emitted code is large: a stack that
// overflows ends the process there, before it writes into another thread's. Each such pair counts as two of the 65,530
// mappings that Linux gives a process by default: with more stacks than half of that, the later ones go without.
static constexpr size_t kGuardBytes = 64 * 1024;
static constexpr int kGuarded = 16 * 1024;

char* new_stack() {
  static std::atomic<int> count = 0;
  const size_t bytes = kGuardBytes + kStackBytes;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED || (count++ < kGuarded && mprotect(at, kGuardBytes, PROT_NONE) != 0)) {
    fprintf(stderr, "emulation: no memory for another stack: %s\n", strerror(errno));
    abort();
  }
  return static_cast<char*>(at) + kGuardBytes;
}

void free_stack(char* stack) { munmap(stack - kGuardBytes, kGuardBytes + kStackBytes); }

}  // namespace weft::emulation

// Annotations for the sanitizers. The macros come from CMakeLists.txt, since some sources are compiled uninstrumented.
#pragma once
#include <cstddef>

#if defined(WEFT_EMULATION_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(WEFT_EMULATION_TSAN)
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void* __tsan_get_current_fiber();
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
}
#endif

namespace weft::emulation {

#if defined(WEFT_EMULATION_TSAN)
inline constexpr bool kThreadSanitizer = true;
// Everything before release(a) happens before everything after acquire(a).
inline void tsan_acquire(const void* at) { __tsan_acquire(const_cast<void*>(at)); }
inline void tsan_release(const void* at) { __tsan_release(const_cast<void*>(at)); }
inline void* tsan_new_fiber() { return __tsan_create_fiber(0); }
inline void tsan_end_fiber(void* fiber) { __tsan_destroy_fiber(fiber); }
inline void* tsan_current() { return __tsan_get_current_fiber(); }
/// Without an edge between the two: edges are ours to state.
inline void tsan_switch(void* fiber) { __tsan_switch_to_fiber(fiber, 1); }
inline void tsan_reads(const void* at, size_t bytes) { __tsan_read_range(const_cast<void*>(at), bytes); }
inline void tsan_writes(void* at, size_t bytes) { __tsan_write_range(at, bytes); }
inline void tsan_ignore_begin() { __tsan_ignore_thread_begin(); }
inline void tsan_ignore_end() { __tsan_ignore_thread_end(); }
#else
inline constexpr bool kThreadSanitizer = false;
inline void tsan_acquire(const void*) {}
inline void tsan_release(const void*) {}
inline void* tsan_new_fiber() { return nullptr; }
inline void tsan_end_fiber(void*) {}
inline void* tsan_current() { return nullptr; }
inline void tsan_switch(void*) {}
inline void tsan_reads(const void*, size_t) {}
inline void tsan_writes(void*, size_t) {}
inline void tsan_ignore_begin() {}
inline void tsan_ignore_end() {}
#endif

#if defined(WEFT_EMULATION_ASAN)
inline constexpr bool kAddressSanitizer = true;
inline void asan_poison(void* at, size_t bytes) { __asan_poison_memory_region(at, bytes); }
inline void asan_unpoison(void* at, size_t bytes) { __asan_unpoison_memory_region(at, bytes); }
#else
inline constexpr bool kAddressSanitizer = false;
inline void asan_poison(void*, size_t) {}
inline void asan_unpoison(void*, size_t) {}
#endif

}  // namespace weft::emulation

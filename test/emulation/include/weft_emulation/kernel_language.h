// The kernel language on the CPU: indices, barriers, warp functions, atomics, scalar functions.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>

#include "weft_emulation/hooks.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

// Indices of the fiber that runs on this OS thread; set at each switch.
extern __thread uint3 threadIdx, blockIdx, blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace weft::emulation {

#if defined(__cpp_lib_source_location)
using Where = std::source_location;
#else
/// For tools whose parser is older than the library of the compiler.
class Where {
 public:
  static constexpr Where current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    Where where;
    where.file_ = file;
    where.line_ = line;
    return where;
  }
  constexpr const char* file_name() const { return file_; }
  constexpr unsigned line() const { return line_; }
  constexpr unsigned column() const { return 0; }

 private:
  const char* file_ = "";
  unsigned line_ = 0;
};
#endif
enum class Warp : uint8_t { Sync, Shuffle, Vote };
enum class Reduce : uint8_t { None, Or, And, Count };

int block_barrier(Reduce reduce, int predicate, const Where& where);
/// Meets the lanes of `mask`; returns the value that lane `source` (0 to 31) brought.
uint64_t warp_exchange(Warp kind, unsigned mask, uint64_t value, int source, const Where& where);
/// Meets the lanes of `mask`; the bits of those whose predicate is not zero.
unsigned warp_vote(unsigned mask, bool predicate, const Where& where);
int lane();
/// The thread sanitizer does not know fences: only released and acquired words are edges for it.
void fence();

template <class T>
T shuffle(unsigned mask, T value, int source, const Where& where) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles have 4 or 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = warp_exchange(Warp::Shuffle, mask, bits, source, where);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace weft::emulation

inline void __syncthreads(weft::emulation::Where where = weft::emulation::Where::current()) {
  weft::emulation::block_barrier(weft::emulation::Reduce::None, 0, where);
}
inline int __syncthreads_or(int predicate, weft::emulation::Where where = weft::emulation::Where::current()) {
  return weft::emulation::block_barrier(weft::emulation::Reduce::Or, predicate, where);
}
inline int __syncthreads_and(int predicate, weft::emulation::Where where = weft::emulation::Where::current()) {
  return weft::emulation::block_barrier(weft::emulation::Reduce::And, predicate, where);
}
inline int __syncthreads_count(int predicate, weft::emulation::Where where = weft::emulation::Where::current()) {
  return weft::emulation::block_barrier(weft::emulation::Reduce::Count, predicate, where);
}
inline void __syncwarp(unsigned mask = ~0u, weft::emulation::Where where = weft::emulation::Where::current()) {
  weft::emulation::warp_exchange(weft::emulation::Warp::Sync, mask, 0, 0, where);
}

// The source lane of each form; width is a power of two: lanes of one section talk to each other.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize,
              weft::emulation::Where where = weft::emulation::Where::current()) {
  const int lane = weft::emulation::lane();
  return weft::emulation::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize,
                  weft::emulation::Where where = weft::emulation::Where::current()) {
  const int lane = weft::emulation::lane(), source = lane ^ lanes;
  // A partner in a later section is out of reach; one in an earlier section is not.
  return weft::emulation::shuffle(mask, value, source < ((lane & ~(width - 1)) + width) ? source & 31 : lane, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   weft::emulation::Where where = weft::emulation::Where::current()) {
  const int lane = weft::emulation::lane(), end = (lane & ~(width - 1)) + width;
  return weft::emulation::shuffle(mask, value, lane + int(delta) < end ? lane + int(delta) : lane, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 weft::emulation::Where where = weft::emulation::Where::current()) {
  const int lane = weft::emulation::lane(), begin = lane & ~(width - 1);
  return weft::emulation::shuffle(mask, value, lane - int(delta) >= begin ? lane - int(delta) : lane, where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              weft::emulation::Where where = weft::emulation::Where::current()) {
  return weft::emulation::warp_vote(mask, predicate != 0, where);
}
inline int __any_sync(unsigned mask, int predicate, weft::emulation::Where where = weft::emulation::Where::current()) {
  return weft::emulation::warp_vote(mask, predicate != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, weft::emulation::Where where = weft::emulation::Where::current()) {
  return weft::emulation::warp_vote(mask, predicate != 0, where) == mask;
}

inline void __threadfence_block() { weft::emulation::fence(); }
inline void __threadfence() {
  weft::emulation::perturb();
  weft::emulation::fence();
}
inline void __threadfence_system() { __threadfence(); }
inline void __nanosleep(unsigned) { weft::emulation::pause(); }
[[noreturn]] inline void __trap() { weft::emulation::fail("__trap()"); }

namespace weft::emulation {
/// Relaxed, as on the device: the value before.
template <class T, class Next>
T atomic_update(T* at, Next&& next) {
  const std::atomic_ref<T> ref(*at);
  T old = ref.load(std::memory_order_relaxed);
  while (!ref.compare_exchange_weak(old, T(next(old)), std::memory_order_relaxed)) continue;
  return old;
}
}  // namespace weft::emulation

template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return weft::emulation::atomic_update(at, [&](T old) { return old + value; });
}
template <class T>
T atomicSub(T* at, std::type_identity_t<T> value) {
  return weft::emulation::atomic_update(at, [&](T old) { return old - value; });
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return weft::emulation::atomic_update(at, [&](T old) { return std::max(old, value); });
}
template <class T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return weft::emulation::atomic_update(at, [&](T old) { return std::min(old, value); });
}
template <class T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return weft::emulation::atomic_update(at, [&](T old) { return old | value; });
}
template <class T>
T atomicAnd(T* at, std::type_identity_t<T> value) {
  return weft::emulation::atomic_update(at, [&](T old) { return old & value; });
}
template <class T>
T atomicXor(T* at, std::type_identity_t<T> value) {
  return weft::emulation::atomic_update(at, [&](T old) { return old ^ value; });
}
template <class T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*at).exchange(value, std::memory_order_relaxed);
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*at).compare_exchange_strong(expected, value, std::memory_order_relaxed);
  return expected;
}

template <class T>
T __ldg(const T* at) {
  return *at;
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __saturatef(float x) { return std::isnan(x) ? 0.0f : std::clamp(x, 0.0f, 1.0f); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(unsigned(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned((uint64_t{x} * y) >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((Wide(x) * y) >> 64);
}
